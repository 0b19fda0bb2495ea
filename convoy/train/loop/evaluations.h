#pragma once

#include "convoy/train/checkpoints/best_model.h"
#include "convoy/train/checkpoints/checkpoints.h"
#include "convoy/train/loop/evaluator.h"

namespace convoy::train {

/// Evaluations during a training, and what follows from them: the best model and early stopping.
class Evaluations {
 public:
  /// `data` may be null: there are none. All must outlive it.
  Evaluations(RunContext& run, const Evaluator& evaluator, const dataset::Dataset* data)
      : run_(run), evaluator_(evaluator), data_(data), best_(run.arguments) {}

  /// Takes the metric's direction, before a training. Throws UsageError where no evaluation has
  /// that metric.
  void check_metric();
  /// Looks at the best evaluation in a checkpoint's state, and forgets it where it was by another
  /// metric. Returns a warning then, else "".
  std::string take_up(TrainerState& saved, const std::string& where);
  /// Shows that the data can be read now rather than at the first evaluation.
  void try_data() const;

  bool is_due(bool epoch_end) const;
  /// Evaluates before the first step.
  void at_start();
  /// Evaluates after a step. Returns whether it is the best so far.
  bool after_step();
  /// Makes up the evaluation for which there was no time when a signal stopped the run. Returns
  /// whether it is the best so far.
  bool make_up();
  /// Looks whether the patience of early stopping ended.
  void check_patience();
  bool stopped_early() const { return stopped_early_; }

  /// Reads the metrics of a finished run's model from its results or its history, and writes the
  /// results: a kill may have come before they were written.
  void find_end(Checkpoints& checkpoints);
  /// Ends with the best weights, and their evaluation's metrics. Returns whether it does.
  bool load_best(Checkpoints& checkpoints);

  const Metrics& metrics() const { return metrics_; }
  /// Whether the metrics are those of the model as it is.
  bool are_of_last_step() const { return step_ == run_.state.global_step; }

 private:
  Metrics metrics_after(int64_t step) const;

  RunContext& run_;
  const Evaluator& evaluator_;
  const dataset::Dataset* data_;
  BestModel best_;
  Metrics metrics_;  // of the last evaluation
  int64_t step_ = -1;
  bool stopped_early_ = false;
};

}  // namespace convoy::train
