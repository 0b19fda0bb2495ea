#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "convoy/base/json.h"
#include "convoy/bench/device_work.h"
#include "convoy/bench/pace.h"
#include "convoy/tasks/task.h"

namespace convoy::bench {

struct StepBenchOptions {
  int64_t steps = 30;      ///< that are timed
  int64_t warmup = 5;      ///< before those
  double peak_tflops = 0;  ///< of one device, for the MFU; 0: by the GPU's name, where it is known
};

/// Speed and memory of steady training steps.
struct MeasuredSteps {
  std::string strategy;
  int num_devices = 1;
  int threads = 1;  ///< per rank
  int64_t steps = 0;
  double median_ms = 0;
  double loss = 0;                ///< of the last step that is timed
  double samples_per_second = 0;  ///< over all ranks, as are tokens
  double tokens_per_second = 0;
  double peak_memory_bytes = 0;                    ///< of a rank
  double memory_bytes = 0;                         ///< of its tensors, by kind as estimates have it
  std::optional<double> peak_device_memory_bytes;  ///< on a GPU
  double data_wait_percent = 0;
  double comm_wait_percent = 0;  ///< not finite where it is not known
  std::optional<Pace> pace;      ///< none where the model's flops are unknown
  std::string device;            ///< a GPU's name; "" of the CPU
  double peak_tflops = 0;        ///< of one device; 0 where it is not known
  /// Model FLOPs utilization (Chowdhery et al., 2022): the model's flops of that peak. What is
  /// computed again does not count.
  std::optional<double> mfu_percent;
  std::optional<DeviceWork> device_work;  ///< of one step, on the main rank
};

/// Trains as `arguments` say, without evaluations, checkpoints and a log; on a GPU one step more,
/// which is counted and not timed. All ranks call this; the main one gets the times.
std::optional<MeasuredSteps> time_steps(tasks::Task& task, options::TrainingArguments arguments,
                                        const StepBenchOptions& options);

/// A line for a person.
std::string to_text(const MeasuredSteps& times);
Json to_json(const MeasuredSteps& times);

}  // namespace convoy::bench
