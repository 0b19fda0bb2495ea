#pragma once

#include <string>

#include "convoy/job/job.h"
#include "convoy/options/arguments.h"
#include "convoy/train/callback.h"
#include "convoy/train/scorer.h"
#include "convoy/train/state.h"

namespace convoy::train {

/// Finds the best evaluation, and whether it is time to stop: Hugging Face's metric_for_best_model,
/// greater_is_better and early stopping. Its memory is in the TrainerState.
class BestModel {
 public:
  explicit BestModel(const options::TrainingArguments& arguments);

  /// Takes the direction from the arguments, else from `scorer` or the metric's name. Throws
  /// UsageError where nothing tells it. Before all that follows.
  void find_direction(const Scorer* scorer);

  /// Compares an evaluation with the best so far; true when it is better, by however little:
  /// early_stopping_threshold is for the patience alone. Throws UsageError when it lacks the
  /// metric.
  bool update(const Metrics& metrics, TrainerState& state) const;
  bool out_of_patience(const TrainerState& state) const;
  /// Forgets a best evaluation by another metric or direction; true when it did.
  bool forget_other_metric(TrainerState& state) const;

  const std::string& metric() const { return metric_; }
  /// Name of the metric with its direction, as the state keeps it.
  std::string full_name() const;

 private:
  double value_of(const Metrics& metrics) const;
  static std::string settings_text(const Metrics& metrics);
  static void forget(TrainerState& state);

  std::string metric_;
  std::string asked_direction_;
  bool greater_is_better_ = false;
  int64_t patience_;
  double threshold_;
};

}  // namespace convoy::train
