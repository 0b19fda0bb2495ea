#include "convoy/train/checkpoints/best_model.h"

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::train {

BestModel::BestModel(const TrainingArguments& arguments)
    : metric_(arguments.metric_for_best_model.empty() ? "loss" : arguments.metric_for_best_model),
      greater_is_better_(arguments.greater_is_better == "auto"
                             ? metric_.find("loss") == std::string::npos &&
                                   !metric_.ends_with("mse")
                             : arguments.greater_is_better == "true"),
      patience_(arguments.early_stopping_patience),
      threshold_(arguments.early_stopping_threshold) {}

double BestModel::value_of(const Metrics& metrics) const {
  auto name = metric_;
  if (auto at = name.find('@'); at != std::string::npos) name.replace(at, 1, "_at_");
  std::vector<std::string> known;
  for (const auto& [key, value] : metrics) {
    if (key == name || key == "eval_" + name) return value;
    known.push_back(key);
  }
  fail<UsageError>("train", "metric_for_best_model = {} is not among the metrics {}{}", metric_,
                   join(known), did_you_mean("eval_" + name, known));
}

bool BestModel::update(const Metrics& metrics, TrainerState& state) const {
  const double value = value_of(metrics);
  const double gain = greater_is_better_ ? value - state.best_metric : state.best_metric - value;
  const bool better =
      std::isfinite(value) && (state.best_step < 0 || (gain > 0 && gain > threshold_));
  if (better) {
    state.best_metric = value;
    state.best_metric_name = full_name();
    state.best_model_checkpoint.clear();
    state.best_step = state.global_step;
    state.evaluations_without_better = 0;
  } else {
    ++state.evaluations_without_better;
  }
  return better;
}

std::string BestModel::full_name() const {
  return metric_ + (greater_is_better_ ? ", greater is better" : ", less is better");
}

bool BestModel::forget_other_metric(TrainerState& state) const {
  if (state.best_step < 0 || state.best_metric_name == full_name()) return false;
  state.best_step = -1;
  state.best_metric_name.clear();
  state.best_model_checkpoint.clear();
  state.evaluations_without_better = 0;
  return true;
}

bool BestModel::out_of_patience(const TrainerState& state) const {
  return patience_ > 0 && state.evaluations_without_better >= patience_;
}

}  // namespace convoy::train
