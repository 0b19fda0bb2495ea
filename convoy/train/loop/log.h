#pragma once

#include <functional>

#include "convoy/train/logging/clock.h"
#include "convoy/train/loop/streams.h"
#include "convoy/train/loop/targets.h"
#include "convoy/train/loop/train_memory.h"

namespace convoy::train {

/// Writes the lines of a training's log, and adds up what they and the state tell of its steps.
class TrainingLog {
 public:
  /// Keeps references: all arguments must outlive this object.
  TrainingLog(RunContext& run, Clock& clock, const TrainingStream& stream, TrainMemory& memory,
              TargetCount& targets)
      : run_(run), clock_(clock), stream_(stream), memory_(memory), targets_(targets) {}

  /// Sets what completes a record on the main rank before it is told. It may take time.
  void set_pace(std::function<void(LogRecord&)> pace) { pace_ = std::move(pace); }

  /// Adds a step, whose rows on this process have the sum `rows_sum`.
  void add_step(const parallel::StepResult& step, uint64_t rows_sum);
  /// Writes a line where the options ask for one after this step. Collective.
  void write_if_due(bool epoch_end);
  /// Writes a line about the steps since the last one; none where there were none. Collective.
  void write();

  /// Adds what all ranks read since the last call to the state's sum of rows. Collective.
  void add_up_rows();
  /// Tells the sums of the weights. Collective.
  void tell_weights() const;
  /// Warns of kernels that failed since the last call.
  void tell_failed_kernels();

 private:
  RunContext& run_;
  Clock& clock_;
  const TrainingStream& stream_;
  TrainMemory& memory_;
  TargetCount& targets_;
  std::function<void(LogRecord&)> pace_;
  uint64_t own_rows_sum_ = 0;      // of rows that this process read since add_up_rows()
  size_t num_failed_kernels_ = 0;  // that were told
};

}  // namespace convoy::train
