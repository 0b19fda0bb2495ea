#pragma once

#include "convoy/train/loop/run_context.h"

namespace convoy::train {

/// Loss scale of fp16 in a run; its memory is in the TrainerState.
class LossScaling {
 public:
  explicit LossScaling(RunContext& run) : run_(run) {}

  /// Loss scale of a step of so many rows, equal on all ranks. Before the first step each of this
  /// process's `tokens` counts as a target; that call is collective.
  double of_step(int64_t samples, int64_t tokens);
  /// Takes a step's result. Throws NumericError on all ranks where no scale is small enough.
  void update(const parallel::StepResult& result, int64_t samples);
  /// Throws NumericError on all ranks where most steps were skipped: the model was not trained.
  void check_skipped() const;
  /// Tells at the end how many steps were skipped.
  void tell_skipped() const;

 private:
  RunContext& run_;
};

}  // namespace convoy::train
