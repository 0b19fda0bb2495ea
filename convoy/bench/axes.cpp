#include "convoy/bench/axes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/planner/cost/operators.h"
#include "convoy/planner/cost/pipeline_inputs.h"
#include "convoy/planner/plan/planner.h"
#include "convoy/planner/search/decision.h"
#include "convoy/report/table.h"

namespace convoy::bench {

namespace {

/// Positions of a row; 1 where there are none.
int64_t positions_of(const parallel::MicroBatch& batch) {
  int64_t out = 1;
  for (const auto& [name, tensor] : batch.inputs) {
    if (tensor.dim() > 1) out = std::max(out, tensor.size(1));
  }
  return out;
}

std::vector<AxisTrial> trials_of(int ranks, int64_t rows, int64_t positions) {
  const auto whole = fmt::format("{} x {}", rows, positions);
  using parallel::Degrees;
  const auto with = [&](auto field) {
    parallel::Parallelism out{.rows = rows};
    out.ranks.*field = ranks;
    return out;
  };
  auto sample = with(&Degrees::shard);
  sample.rows = rows / ranks;
  return {
      {"", whole, {.rows = rows}},
      {"sample", fmt::format("{} x {}", rows / ranks, positions), sample},
      {"attribute", fmt::format("{} x {}", rows, positions / ranks), with(&Degrees::context)},
      {"parameter", whole + ", columns", with(&Degrees::tensor)},
      {"operator", whole + ", stages", with(&Degrees::pipeline)},
  };
}

/// Predicts a trial's step, or says why the model cannot be split that way.
void predict(AxisTrial& trial, const planner::PlanReport& known) {
  try {
    auto split = known.space.base;
    split.ranks = trial.split.ranks;
    split.rows = trial.split.rows;
    trial.predicted = planner::predict(known.numbers, known.cluster, known.space.facts, split);
    if (trial.predicted.fit == planner::Fit::No) trial.refused = "it does not fit";
  } catch (const UsageError& error) {
    trial.refused = error.what();
  }
}

OperatorBound bound_of(const tasks::Run& run, const options::TrainingArguments& arguments,
                       const parallel::MicroBatch& batch, int ranks) {
  OperatorBound out;
  for (const auto& graph :
       planner::operator_graphs(run.factory(), batch, planner::profile_options(arguments))) {
    out.seconds += graph.seconds;
    out.least_seconds += graph.least_seconds(ranks);
    out.operators += graph.operators;
  }
  return out;
}

}  // namespace

double AxesReport::loss_off(const AxisTrial& trial) const {
  return trial.measured.loss / trials.front().measured.loss - 1;
}

AxesReport compare_axes(
    const tasks::Run& run, const options::TrainingArguments& arguments, const AxesOptions& options,
    const std::function<MeasuredStep(const parallel::Parallelism& split)>& train,
    const ProgressFn& progress) {
  const int ranks = options.num_ranks;
  if (options.rows % ranks != 0) {
    fail<UsageError>("bench", "{} do not divide over {} ranks; try --rows {}",
                     plural(options.rows, "row"), ranks, (options.rows / ranks + 1) * ranks);
  }
  auto any = arguments;
  any.global_batch_size = options.rows;
  any.per_device_train_batch_size = options.rows / ranks;
  any.gradient_accumulation_steps = 1;
  auto whole = any;
  whole.global_batch_size.reset();
  whole.per_device_train_batch_size = options.rows;
  const auto batch = planner::first_batch(whole, *run.train_data, 1);
  if (batch.empty() || batch.samples.numel() < options.rows) {
    fail<UsageError>("bench", "the training data has no {}; try fewer --rows",
                     plural(options.rows, "row"));
  }
  AxesReport out{.num_ranks = ranks, .rows = options.rows, .positions = positions_of(batch)};
  out.trials = trials_of(ranks, options.rows, out.positions);
  std::vector<int64_t> sizes{options.rows / ranks, options.rows};
  if (sizes.front() > 1) sizes.insert(sizes.begin(), 1);
  const auto known_of = [&](int num_ranks) {
    return planner::prepare_plan(
        run.factory, any, *run.train_data,
        {.num_ranks = num_ranks, .most_rows = options.rows, .sizes = sizes});
  };
  const auto alone = known_of(1), together = known_of(ranks);
  out.bound = bound_of(run, arguments, batch, ranks);
  for (auto& trial : out.trials) {
    if (progress) {
      progress(&trial - out.trials.data(), std::ssize(out.trials));
    }
    predict(trial, trial.axis.empty() ? alone : together);
    if (trial.refused.empty()) trial.measured = train(trial.split);
    if (!trial.measured.failure.empty()) trial.refused = trial.measured.failure;
  }
  return out;
}

std::string to_text(const AxesReport& report) {
  report::Table table;
  table.column("axis", report::Align::kLeft).column("share of a rank", report::Align::kLeft);
  table.column("step predicted").column("measured").column("off");
  table.column("memory predicted").column("counted").column("off").column("loss difference");
  std::string refused;
  for (const auto& trial : report.trials) {
    const auto name = trial.axis.empty() ? "one device" : trial.axis;
    if (!trial.went_well()) {
      refused += wrap(fmt::format("{}: {}", name, trial.refused), 0) + "\n";
      continue;
    }
    table.row({name, trial.share, planner::step_text(trial.predicted.seconds),
               planner::step_text(trial.measured.seconds), trial.time().off(),
               human_bytes(trial.predicted.memory.sum()), human_bytes(trial.measured.memory_bytes),
               trial.memory().off(),
               trial.axis.empty() ? "" : fmt::format("{:.0e}", std::abs(report.loss_off(trial)))});
  }
  const auto& bound = report.bound;
  return fmt::format(
      "{} x {} on {} ranks\n\n{}{}\n{}\n", report.rows, report.positions, report.num_ranks,
      table.to_text(), refused,
      wrap(fmt::format("operators of one block on different ranks: {} operators take {} in "
                       "sequence, and at least {} ({:.0f} %) even if messages were free",
                       bound.operators, planner::step_text(bound.seconds),
                       planner::step_text(bound.least_seconds),
                       100 * bound.least_seconds / bound.seconds),
           0));
}

Json to_json(const AxesReport& report) {
  Json trials = Json::array();
  for (const auto& trial : report.trials) {
    Json row = planner::to_json({trial.split, trial.predicted});
    row["axis"] = trial.axis;
    row["share"] = trial.share;
    row["refused"] = trial.refused;
    if (trial.went_well()) {
      row["measured_seconds"] = trial.measured.seconds;
      row["measured_memory_bytes"] = trial.measured.memory_bytes;
      row["loss"] = trial.measured.loss;
      row["loss_off"] = report.loss_off(trial);
    }
    trials.push_back(std::move(row));
  }
  return {{"ranks", report.num_ranks},
          {"rows", report.rows},
          {"positions", report.positions},
          {"trials", trials},
          {"operators", report.bound.operators},
          {"operators_seconds", report.bound.seconds},
          {"operators_least_seconds", report.bound.least_seconds}};
}

}  // namespace convoy::bench
