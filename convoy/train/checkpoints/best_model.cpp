#include "convoy/train/checkpoints/best_model.h"

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/metric_direction.h"
#include "convoy/base/text.h"

namespace convoy::train {

BestModel::BestModel(const options::TrainingArguments& arguments)
    : metric_(arguments.metric_for_best_model.empty() ? "loss" : arguments.metric_for_best_model),
      asked_direction_(arguments.greater_is_better),
      patience_(arguments.early_stopping_patience),
      threshold_(arguments.early_stopping_threshold) {}

void BestModel::find_direction(const Scorer* scorer) {
  if (asked_direction_ != "auto") {
    greater_is_better_ = asked_direction_ == "true";
    return;
  }
  const auto name = plain_metric(metric_);
  auto direction = scorer != nullptr ? scorer->greater_is_better(name) : std::nullopt;
  if (!direction) direction = convoy::greater_is_better(name);
  if (!direction) {
    fail<UsageError>("train",
                     "nothing tells whether a greater {} is better, for metric_for_best_model; try "
                     "--greater_is_better true or false, or declare it in the Scorer",
                     metric_);
  }
  greater_is_better_ = *direction;
}

/// Settings of an evaluation that its numbers depend on, as text behind the metric's name.
std::string BestModel::settings_text(const Metrics& metrics) {
  std::string out;
  for (const char* setting : {kExcludeSeen, kTargetTime}) {
    const auto found = metrics.find(std::string("eval_") + setting);
    if (found != metrics.end()) out += fmt::format(", {} = {}", setting, found->second);
  }
  return out;
}

double BestModel::value_of(const Metrics& metrics) const {
  const auto name = plain_metric(metric_);
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
  const auto name = full_name() + settings_text(metrics);
  // A state of before settings were kept has a name without them.
  const bool other = state.best_metric_name != name && state.best_metric_name != full_name();
  if (state.best_step >= 0 && other) forget(state);
  const double gain = greater_is_better_ ? value - state.best_metric : state.best_metric - value;
  const bool first = state.best_step < 0;
  const bool better = std::isfinite(value) && (first || gain > 0);
  const bool enough = better && (first || gain > threshold_);
  if (better) {
    state.best_metric = value;
    state.best_metric_name = name;
    state.best_model_checkpoint.clear();
    state.best_step = state.global_step;
  }
  state.evaluations_without_better = enough ? 0 : state.evaluations_without_better + 1;
  return better;
}

std::string BestModel::full_name() const {
  return metric_ + (greater_is_better_ ? ", greater is better" : ", less is better");
}

void BestModel::forget(TrainerState& state) {
  state.best_step = -1;
  state.best_metric_name.clear();
  state.best_model_checkpoint.clear();
  state.evaluations_without_better = 0;
}

bool BestModel::forget_other_metric(TrainerState& state) const {
  if (state.best_step < 0 || state.best_metric_name.starts_with(full_name())) return false;
  forget(state);
  return true;
}

bool BestModel::out_of_patience(const TrainerState& state) const {
  return patience_ > 0 && state.evaluations_without_better >= patience_;
}

}  // namespace convoy::train
