#pragma once

#include <functional>

#include "convoy/job/job.h"
#include "convoy/train/trainer.h"

namespace convoy::bench {

/// Pace of a training, beside the machine's limits.
struct Pace {
  double peak_percent = 0;  ///< of the speed that products reach
  double floor_times = 0;   ///< the time of a step in multiples of what it needs at the least: its
                            ///< products at that speed, and the optimizer's pass over the memory
};

/// Returns the pace of so many samples a second over all ranks, against the device of this process,
/// which is measured now with buffers of at most some `bytes`.
Pace measure_pace(double flops_per_sample, double samples_per_second, train::Trainer& trainer,
                  const options::TrainingArguments& arguments, int64_t bytes);

/// Returns a function for Trainer::set_pace. It measures the device once, when training has gone on
/// for a while. Empty where the flops are unknown or output.quiet is set. `trainer` must outlive
/// it.
std::function<void(train::LogRecord&)> step_pace(double flops_per_sample, train::Trainer& trainer,
                                                 const options::TrainingArguments& arguments);

}  // namespace convoy::bench
