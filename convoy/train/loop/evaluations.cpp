#include "convoy/train/loop/evaluations.h"

#include "convoy/train/loop/due.h"

namespace convoy::train {

void Evaluations::check_metric() {
  const auto& make_scorer = evaluator_.make_scorer();
  check_best_metric(run_.arguments.metric_for_best_model, make_scorer);
  best_.find_direction((make_scorer ? make_scorer() : nullptr).get());
}

std::string Evaluations::take_up(TrainerState& saved, const std::string& where) {
  if (!best_.forget_other_metric(saved)) return "";
  return fmt::format("warning: {} counted another metric; the best evaluation starts anew with {}",
                     where, best_.full_name());
}

void Evaluations::try_data() const {
  if (data_ == nullptr) return;
  auto first = data_->open(stream_options(run_, false));
  check_same_data(run_, *first, "evaluation data");
  first->start(0, 0);
  first->next();
}

bool Evaluations::is_due(bool epoch_end) const {
  const auto& arguments = run_.arguments;
  return data_ != nullptr && train::is_due(arguments.eval_strategy,
                                           arguments.eval_steps.value_or(arguments.logging_steps),
                                           run_.state, epoch_end);
}

void Evaluations::at_start() {
  if (data_ == nullptr) return;
  metrics_ = evaluator_.evaluate(*data_, "eval_").value();  // no signal is noted yet
  run_.callbacks.notify([&](Callback& callback) { callback.on_evaluate(metrics_, 0); });
}

bool Evaluations::after_step() {
  auto& state = run_.state;
  auto metrics = evaluator_.evaluate(*data_, "eval_");
  state.evaluation_owed = !metrics.has_value();
  if (!metrics) return false;
  metrics_ = std::move(*metrics);
  step_ = state.global_step;
  run_.callbacks.notify(
      [&](Callback& callback) { callback.on_evaluate(metrics_, state.global_step); });
  Json entry = metrics_;
  entry["epoch"] = state.epoch();
  entry["step"] = state.global_step;
  state.log_history.push_back(entry);
  const bool better = best_.update(metrics_, state);
  check_patience();
  if (stopped_early_) {
    run_.callbacks.say(fmt::format(
        "stopping early: no better {} in {} evaluations, the best was {:.4f} at step {}",
        best_.metric(), state.evaluations_without_better, state.best_metric, state.best_step));
  }
  return better;
}

bool Evaluations::make_up() {
  return std::exchange(run_.state.evaluation_owed, false) && data_ != nullptr && after_step();
}

void Evaluations::check_patience() {
  const auto& state = run_.state;
  stopped_early_ = best_.out_of_patience(state) && state.global_step < state.max_steps;
}

/// Metrics of the evaluation after a step, from the history; empty where there was none.
Metrics Evaluations::metrics_after(int64_t step) const {
  Metrics out;
  for (const auto& entry : run_.state.log_history) {
    if (entry.contains("eval_loss") && entry.at("step") == step) out = metrics_from_json(entry);
  }
  out.erase("step");
  out.erase("epoch");
  return out;
}

void Evaluations::find_end(Checkpoints& checkpoints) {
  const auto& state = run_.state;
  metrics_ = checkpoints.saved_metrics("eval");
  const bool is_best = run_.arguments.load_best_model_at_end && state.best_step >= 0;
  if (metrics_.empty()) metrics_ = metrics_after(is_best ? state.best_step : state.global_step);
  if (metrics_.empty()) return;
  step_ = state.global_step;
  checkpoints.save_metrics("eval", metrics_);
}

bool Evaluations::load_best(Checkpoints& checkpoints) {
  const auto& state = run_.state;
  if (!run_.arguments.load_best_model_at_end || state.best_step < 0) return false;
  if (state.best_step != state.global_step && !checkpoints.load_best(state)) return false;
  if (auto metrics = metrics_after(state.best_step); !metrics.empty()) {
    metrics_ = std::move(metrics);
  }
  step_ = state.global_step;
  run_.callbacks.say(fmt::format("the model is the best one, of step {}: {} {:.4f}",
                                 state.best_step, best_.metric(), state.best_metric));
  return true;
}

}  // namespace convoy::train
