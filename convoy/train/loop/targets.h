#pragma once

#include "convoy/train/loop/run_context.h"

namespace convoy::train {

/// Counts the targets of a training's steps. A step without one teaches nothing.
class TargetCount {
 public:
  explicit TargetCount(RunContext& run) : run_(run) {}

  /// Counts a step that was made.
  void add(const parallel::StepResult& step);
  /// Throws UsageError on all ranks where no step so far had a target.
  void check() const;
  /// Warns of steps since the last call that had none.
  void tell();

 private:
  RunContext& run_;
  double num_targets_ = 0;
  int64_t untold_ = 0;  // steps without one
};

}  // namespace convoy::train
