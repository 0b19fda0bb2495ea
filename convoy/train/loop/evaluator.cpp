#include "convoy/train/loop/evaluator.h"

#include <ATen/ATen.h>

#include <chrono>
#include <cmath>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/comm/to_host.h"
#include "convoy/job/run_options.h"
#include "convoy/train/injected_fault.h"
#include "convoy/train/stop_poll.h"

namespace convoy::train {

std::optional<Metrics> Evaluator::evaluate(const dataset::Dataset& data,
                                           const std::string& prefix) const {
  const auto began = std::chrono::steady_clock::now();
  const Doing doing("evaluation");
  auto& strategy = *run_.strategy;
  auto stream = data.open(stream_options(run_, false));
  check_same_data(run_, *stream, "evaluation data");
  stream->start(0, 0);
  const auto scorer = make_scorer_ ? make_scorer_() : nullptr;
  const auto& group = strategy.processes();
  // Loss sum, targets, and for each rank whether its loss is not finite.
  auto totals = at::zeros({2 + group.size()}, at::kDouble);
  auto* sums = totals.data_ptr<double>();
  inject_fault("evaluation", strategy, run_.job.world());
  int64_t steps = 0;
  StopPoll poll(stop_.began() ? &group : nullptr, stop_.source());
  while (auto step = stream->next()) {
    auto outputs = strategy.forward(step->micro_batches, nn::Mode::Evaluate);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto& out = outputs[i];
      if (out.empty() || !strategy.tells_rows()) continue;
      sums[0] += comm::item<double>(out.at("loss"));
      sums[1] += comm::item<double>(out.at("count"));
      if (scorer) scorer->add_batch(step->micro_batches[i], step->s0, out);
    }
    ++steps;
    run_.callbacks.notify(
        [&](Callback& callback) { callback.on_evaluate_step(step->end, stream->num_rows()); });
    const bool is_last = step->end >= stream->num_rows();
    if (const int signal = is_last ? 0 : poll.after_step()) {
      stop_.ended_by = signal;
      return std::nullopt;
    }
  }
  sums[2 + group.rank()] = std::isfinite(sums[0]) ? 0 : 1;
  group.all_reduce(totals, comm::ReduceOp::Sum, "reduce evaluation loss");
  check_finite(group, sums + 2, sums[0]);
  const double seconds = seconds_since(began);
  if (scorer) scorer->reduce(group);
  if (sums[1] == 0 && !(scorer && scorer->has_rows())) {
    fail_on_all_ranks<UsageError>("train", "no row of the evaluation data has a target; {}",
                                  no_targets_hint());
  }
  const double loss = sums[1] == 0 ? NAN : sums[0] / sums[1];
  const auto rows = static_cast<double>(stream->num_rows());
  Metrics metrics;
  if (scorer) metrics = scorer->values(prefix, loss);
  metrics[prefix + "loss"] = loss;
  metrics[prefix + "runtime"] = seconds;
  metrics[prefix + "samples"] = rows;
  metrics[prefix + "samples_per_second"] = rows / seconds;
  metrics[prefix + "steps_per_second"] = static_cast<double>(steps) / seconds;
  tell_not_finite(metrics, prefix, scorer.get(), /*has_targets=*/sums[1] > 0);
  return metrics;
}

void Evaluator::check_finite(const comm::Group& group, const double* not_finite,
                             double loss) const {
  for (int rank = 0; rank < group.size(); ++rank) {
    if (not_finite[rank] == 0) continue;
    fail_on_all_ranks<NumericError>(
        "train",
        "the evaluation loss after step {} is not finite on {}; got {}; try a "
        "lower learning_rate or an earlier checkpoint",
        run_.state.global_step, run_.strategy->replica().groups().mesh.who(rank), loss);
  }
}

/// Warns of metrics that are not finite, for which results and logs hold null, as JSON has no such
/// numbers.
void Evaluator::tell_not_finite(const Metrics& metrics, const std::string& prefix,
                                const Scorer* scorer, bool has_targets) const {
  const auto& callbacks = run_.callbacks;
  const int64_t after = run_.state.global_step;
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
    callbacks.say(fmt::format("warning: {} after step {} is {}, and null in what is written", name,
                              after, value));
  }
  for (const auto& [reason, names] : by_reason) {
    callbacks.say(fmt::format("warning: no {} after step {}: {}; null in what is written",
                              join(names), after, reason));
  }
}

void Evaluator::predict(const dataset::Dataset& data, const Trainer::UsePrediction& use,
                        int64_t most, nn::Mode mode) const {
  job::check_whole_rows(run_.arguments.parallel);
  auto stream = data.open(stream_options(run_, false));
  check_same_data(run_, *stream, "data to predict");
  stream->start(0, 0);
  while (auto step = stream->next()) {
    use(*step, run_.strategy->forward(step->micro_batches, mode));
    if (most > 0 && step->end >= most) break;
  }
}

}  // namespace convoy::train
