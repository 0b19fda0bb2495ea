#include <ATen/ATen.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"
#include "convoy/train/loop/trainer_impl.h"
#include "convoy/train/stop_poll.h"

namespace convoy::train {

std::string no_targets_hint() {
  return "expected rows of at least two positions; where tokens are hidden (mlm_probability), none "
         "was drawn: try a larger one, or more rows";
}

Metrics Trainer::evaluate() {
  const auto& data = impl_->eval_data_;
  if (!data) fail<UsageError>("train", "there is no evaluation data; got none");
  return evaluate(*data, "eval_");
}

Metrics Trainer::evaluate(const dataset::Dataset& data, const std::string& prefix) {
  return impl_->evaluate(data, prefix).value_or(Metrics());
}

Metrics Trainer::evaluate_end() {
  if (evaluated_last_step()) return impl_->eval_metrics_;
  auto metrics = evaluate();
  if (!metrics.empty()) save_metrics("eval", metrics);
  return metrics;
}

std::optional<Metrics> Trainer::Impl::evaluate(const dataset::Dataset& data,
                                               const std::string& prefix) {
  const auto began = std::chrono::steady_clock::now();
  const Doing doing("evaluation");
  auto stream = data.open(stream_options(false));
  check_same_data(*stream, "evaluation data");
  stream->start(0, 0);
  const auto scorer = make_scorer_ ? make_scorer_() : nullptr;
  const auto& group = strategy_->processes();
  // Loss sum, targets, and for each rank whether its loss is not finite.
  auto totals = at::zeros({2 + group.size()}, at::kDouble);
  auto* sums = totals.data_ptr<double>();
  inject_fault("evaluation");
  int64_t steps = 0;
  StopPoll poll(may_be_stopped_ ? &group : nullptr, stop_signal_);
  while (auto step = stream->next()) {
    auto outputs = strategy_->forward(step->micro_batches, nn::Mode::Evaluate);
    for (const auto& out : outputs) {
      if (out.empty() || !strategy_->tells_rows()) continue;
      sums[0] += comm::item<double>(out.at("loss"));
      sums[1] += comm::item<double>(out.at("count"));
      if (scorer) scorer->add(out);
    }
    ++steps;
    callbacks_.notify(
        [&](Callback& callback) { callback.on_evaluate_step(step->end, stream->num_rows()); });
    const bool is_last = step->end >= stream->num_rows();
    if (const int signal = is_last ? 0 : poll.after_step()) {
      stopped_by_ = signal;
      return std::nullopt;
    }
  }
  sums[2 + group.rank()] = std::isfinite(sums[0]) ? 0 : 1;
  group.all_reduce(totals, comm::ReduceOp::Sum, "reduce evaluation loss");
  for (int rank = 0; rank < group.size(); ++rank) {
    if (sums[2 + rank] == 0) continue;
    fail_on_all_ranks<NumericError>(
        "train",
        "the evaluation loss after step {} is not finite on {}; got {}; try a "
        "lower learning_rate or an earlier checkpoint",
        state_.global_step, strategy_->replica().groups().mesh.who(rank), sums[0]);
  }
  const double seconds = seconds_since(began);
  if (scorer) scorer->reduce(group);
  if (sums[1] == 0 && !(scorer && scorer->has_rows())) {
    fail_on_all_ranks<UsageError>("train", "no row of the evaluation data has a target; {}",
                                  no_targets_hint());
  }
  const double loss = sums[1] == 0 ? NAN : sums[0] / sums[1];
  Metrics metrics;
  if (scorer) metrics = scorer->values(prefix, loss);
  metrics[prefix + "loss"] = loss;
  metrics[prefix + "runtime"] = seconds;
  metrics[prefix + "samples"] = static_cast<double>(stream->num_rows());
  metrics[prefix + "samples_per_second"] = static_cast<double>(stream->num_rows()) / seconds;
  metrics[prefix + "steps_per_second"] = static_cast<double>(steps) / seconds;
  tell_not_finite(metrics, prefix, scorer.get(), /*has_targets=*/sums[1] > 0);
  return metrics;
}

/// JSON has no such numbers: results and logs hold null in their place.
void Trainer::Impl::tell_not_finite(const Metrics& metrics, const std::string& prefix,
                                    const Scorer* scorer, bool has_targets) const {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& [name, value] : metrics) {
    if (std::isfinite(value)) continue;
    const auto own = name.substr(prefix.size());
    auto reason = scorer && std::isnan(value) ? scorer->reason_of_none(own) : "";
    if (own == "loss" && !has_targets) reason = "the model knows no row's target";
    if (!reason.empty()) {
      by_reason[reason].push_back(name);
      continue;
    }
    callbacks_.say(fmt::format("warning: {} after step {} is {}, and null in what is written", name,
                               state_.global_step, value));
  }
  for (const auto& [reason, names] : by_reason) {
    callbacks_.say(fmt::format("warning: no {} after step {}: {}; null in what is written",
                               join(names), state_.global_step, reason));
  }
}

/// Evaluates during training; true when it is the best so far.
bool Trainer::Impl::evaluate_now() {
  auto metrics = evaluate(*eval_data_, "eval_");
  state_.evaluation_owed = !metrics.has_value();
  if (!metrics) return false;
  eval_metrics_ = std::move(*metrics);
  evaluated_step_ = state_.global_step;
  callbacks_.notify(
      [&](Callback& callback) { callback.on_evaluate(eval_metrics_, state_.global_step); });
  Json entry = eval_metrics_;
  entry["epoch"] = state_.epoch();
  entry["step"] = state_.global_step;
  state_.log_history.push_back(entry);
  const bool better = best_.update(eval_metrics_, state_);
  stopped_early_ = best_.out_of_patience(state_) && state_.global_step < state_.max_steps;
  if (stopped_early_) {
    callbacks_.say(fmt::format(
        "stopping early: no better {} in {} evaluations, the best was {:.4f} at step {}",
        best_.metric(), state_.evaluations_without_better, state_.best_metric, state_.best_step));
  }
  return better;
}

bool Trainer::Impl::evaluation_is_due(bool epoch_end) const {
  return eval_data_ && is_due(arguments_.eval_strategy,
                              arguments_.eval_steps.value_or(arguments_.logging_steps), epoch_end);
}

/// The evaluation for which there was no time when a signal stopped the run.
void Trainer::Impl::make_up_evaluation() {
  if (!std::exchange(state_.evaluation_owed, false) || !eval_data_) return;
  if (!evaluate_now()) return;
  if (arguments_.load_best_model_at_end) {
    save_checkpoint(/*wait=*/ended());
  } else {
    checkpoints_->note_resumed_as_best(state_);
  }
}

/// Metrics of the evaluation after a step, as the history has them; none: there was none.
Metrics Trainer::Impl::evaluation_after(int64_t step) const {
  Metrics out;
  for (const auto& entry : state_.log_history) {
    if (entry.contains("eval_loss") && entry.at("step") == step) out = metrics_from_json(entry);
  }
  out.erase("step");
  out.erase("epoch");
  return out;
}

/// Finds the metrics of the evaluation of a finished run's model; a kill may have come before they
/// were written.
void Trainer::Impl::find_end_evaluation() {
  eval_metrics_ = checkpoints_->saved_metrics("eval");
  const bool is_best = arguments_.load_best_model_at_end && state_.best_step >= 0;
  if (eval_metrics_.empty()) {
    eval_metrics_ = evaluation_after(is_best ? state_.best_step : state_.global_step);
  }
  if (eval_metrics_.empty()) return;
  evaluated_step_ = state_.global_step;
  checkpoints_->save_metrics("eval", eval_metrics_);
}

/// Ends with the best weights, and what their evaluation gave. Returns whether it does.
bool Trainer::Impl::load_best_model() {
  if (!arguments_.load_best_model_at_end || state_.best_step < 0) return false;
  if (state_.best_step != state_.global_step && !checkpoints_->load_best(state_)) return false;
  if (auto metrics = evaluation_after(state_.best_step); !metrics.empty()) {
    eval_metrics_ = std::move(metrics);
  }
  evaluated_step_ = state_.global_step;
  callbacks_.say(fmt::format("the model is the best one, of step {}: {} {:.4f}", state_.best_step,
                             best_.metric(), state_.best_metric));
  return true;
}

void Trainer::predict(const dataset::Dataset& data, const UsePrediction& use, int64_t most,
                      nn::Mode mode) {
  job::check_whole_rows(impl_->arguments_.parallel);
  auto stream = data.open(impl_->stream_options(false));
  impl_->check_same_data(*stream, "data to predict");
  stream->start(0, 0);
  while (auto step = stream->next()) {
    use(*step, impl_->strategy_->forward(step->micro_batches, mode));
    if (most > 0 && step->end >= most) break;
  }
}

}  // namespace convoy::train
