#include "convoy/bench/batches.h"

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/job/run_options.h"
#include "convoy/planner/devices/memory_budget.h"
#include "convoy/planner/estimate/asked_run.h"
#include "convoy/planner/plan/planner.h"
#include "convoy/planner/search/decision.h"
#include "convoy/report/table.h"

namespace convoy::bench {

namespace {

std::vector<int64_t> sizes_of(const BatchOptions& options) {
  auto out = options.rows;
  for (const int64_t rows : out) {
    if (rows < 1) fail<UsageError>("bench", "--rows has {}; expected at least 1", rows);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  if (!out.empty()) return out;
  for (int64_t rows = 1; rows <= options.most_rows; rows *= 2) out.push_back(rows);
  return out;
}

void check_arguments(const options::TrainingArguments& arguments) {
  if (arguments.parallel.strategy != "plan") return;
  fail<UsageError>("bench",
                   "strategy = plan chooses its micro-batches itself; try the run that convoy plan "
                   "--output writes");
}

/// Predicts steps of a run with other numbers of rows in a micro-batch.
class Predictor {
 public:
  Predictor(const tasks::Run& run, options::TrainingArguments arguments, int num_ranks,
            const std::vector<int64_t>& sizes)
      : run_(run), arguments_(std::move(arguments)), num_ranks_(num_ranks) {
    auto any = arguments_;  // of a micro-batch, which all are measured by
    any.global_batch_size.reset();
    any.per_device_train_batch_size = sizes.back();
    any.gradient_accumulation_steps = 1;
    known_ =
        planner::prepare_plan(run.factory, any, *run.train_data,
                              {.num_ranks = num_ranks, .most_rows = sizes.back(), .sizes = sizes});
    data_rows_ = run.train_data->open(job::stream_options(any, true))->num_rows();
  }

  BatchTrial predict(int64_t rows) {
    auto arguments = arguments_;
    arguments.per_device_train_batch_size = rows;
    auto asked = planner::asked_run(run_.factory, arguments, *run_.train_data, num_ranks_);
    BatchTrial out{.parallelism = asked.parallelism};
    out.step_rows = rows * asked.parallelism.micro_batches * asked.mesh.degree(parallel::kRows);
    if (data_rows_ > 0 && out.step_rows > data_rows_) {
      fail<UsageError>("bench", "a step of {} is more than the training data has ({}); try fewer",
                       plural(out.step_rows, "row"), data_rows_);
    }
    out.predicted = planner::predict(known_.numbers, known_.cluster, asked.mesh, asked.parallelism,
                                     asked.facts);
    asked_ = std::move(asked);
    return out;
  }

  /// Layout and options of the run that was predicted last.
  std::string spread() const {
    auto out = asked_.mesh.to_text();
    if (asked_.parallelism.zero > 0) out += fmt::format(", zero {}", asked_.parallelism.zero);
    if (asked_.parallelism.recompute) out += ", gradient_checkpointing";
    return out;
  }
  int num_stages() const { return asked_.mesh.degree(parallel::Axis::Pipeline); }

 private:
  const tasks::Run& run_;
  options::TrainingArguments arguments_;
  int num_ranks_;
  planner::PlanReport known_;
  planner::AskedRun asked_;
  int64_t data_rows_ = 0;
};

/// Fastest of the trials that succeeded; null where none did.
const BatchTrial* fastest(const BatchReport& report) {
  const BatchTrial* out = nullptr;
  for (const auto& trial : report.trials) {
    const bool is_faster =
        out == nullptr || trial.measured.samples_per_second > out->measured.samples_per_second;
    if (trial.went_well() && is_faster) out = &trial;
  }
  return out;
}

struct Accuracy {
  std::vector<planner::TimedSplit> times = {}, memories = {};
};

Accuracy accuracy_of(const BatchReport& report) {
  Accuracy out;
  for (const auto& trial : report.trials) {
    if (!trial.went_well()) continue;
    out.times.push_back(trial.time());
    out.memories.push_back(trial.memory());
  }
  return out;
}

Json to_json(const std::vector<planner::TimedSplit>& trials) {
  return trials.empty() ? Json() : planner::to_json(planner::errors_of(trials));
}

}  // namespace

BatchReport try_batches(const tasks::Run& run, const options::TrainingArguments& arguments,
                        const BatchOptions& options,
                        const std::function<MeasuredStep(int64_t rows)>& train,
                        const ProgressFn& progress) {
  check_arguments(arguments);
  const auto sizes = sizes_of(options);
  const auto& parallel = arguments.parallel;
  const auto room = planner::room_of_rank("", options.num_ranks, parallel.device_memory);
  Predictor predictor(run, arguments, options.num_ranks, sizes);
  BatchReport out;
  for (const int64_t rows : sizes) {
    if (progress)
      progress(static_cast<int64_t>(out.trials.size()), static_cast<int64_t>(sizes.size()));
    try {
      out.trials.push_back(predictor.predict(rows));
    } catch (const UsageError& error) {
      if (out.trials.empty()) throw;
      out.stopped = error.what();
      break;
    }
    auto& trial = out.trials.back();
    if (trial.predicted.fit == planner::Fit::No) {
      out.stopped =
          fmt::format("a micro-batch of {} does not fit: {}; a rank has {}", plural(rows, "row"),
                      planner::shortage(trial.predicted, predictor.num_stages()), room.text);
      break;
    }
    trial.measured = train(rows);
    if (trial.measured.failure.empty()) continue;
    out.stopped = fmt::format("the training with micro-batches of {} failed: {}",
                              plural(rows, "row"), trial.measured.failure);
    break;
  }
  out.what = predictor.spread();
  return out;
}

std::string to_text(const BatchReport& report) {
  report::Table table;
  table.column("rows").column("per step").column("step predicted").column("measured").column("off");
  table.column("rows/s").column("tokens/s");
  table.column("memory predicted").column("counted").column("off").column("process");
  for (const auto& trial : report.trials) {
    const auto& took = trial.measured;
    const bool well = trial.went_well();
    const auto of = [&](const std::string& text) { return well ? text : "-"; };
    table.row({std::to_string(trial.parallelism.rows), std::to_string(trial.step_rows),
               planner::step_text(trial.predicted.seconds), of(planner::step_text(took.seconds)),
               well ? trial.time().off() : "-", of(human_rate(took.samples_per_second)),
               of(human_rate(took.tokens_per_second)), human_bytes(trial.predicted.memory.sum()),
               of(human_bytes(took.memory_bytes)), well ? trial.memory().off() : "-",
               of(human_bytes(took.peak_memory_bytes))});
  }
  auto out = fmt::format("{}, by rows per micro-batch\n\n{}", report.what, table.to_text());
  const auto accuracy = accuracy_of(report);
  if (!accuracy.times.empty()) {
    out += fmt::format("\ntime: {}", planner::errors_of(accuracy.times).to_text());
  }
  if (!accuracy.memories.empty()) {
    out += fmt::format("\nmemory: {}\n", planner::errors_of(accuracy.memories).to_text());
  }
  if (const auto* best = fastest(report)) {
    out += fmt::format("fastest: micro-batches of {}, {} rows/s\n",
                       plural(best->parallelism.rows, "row"),
                       human_rate(best->measured.samples_per_second));
  }
  if (!report.stopped.empty()) out += wrap("stopped: " + report.stopped, 0) + "\n";
  return out;
}

Json to_json(const BatchReport& report) {
  const auto accuracy = accuracy_of(report);
  Json trials = Json::array();
  for (const auto& trial : report.trials) {
    const auto& it = trial.predicted;
    Json row{{"per_device_train_batch_size", trial.parallelism.rows},
             {"gradient_accumulation_steps", trial.parallelism.micro_batches},
             {"step_rows", trial.step_rows},
             {"seconds", it.seconds},
             {"memory_bytes", it.memory.sum()},
             {"activations_bytes", it.memory.activations},
             {"stage", it.stage},
             {"fits", planner::name_of(it.fit)},
             {"short_bytes", it.short_bytes}};
    if (trial.went_well()) {
      row["measured_seconds"] = trial.measured.seconds;
      row["samples_per_second"] = trial.measured.samples_per_second;
      row["tokens_per_second"] = trial.measured.tokens_per_second;
      row["measured_memory_bytes"] = trial.measured.memory_bytes;
      row["peak_memory_bytes"] = trial.measured.peak_memory_bytes;
    }
    trials.push_back(std::move(row));
  }
  return {{"run", report.what},
          {"time", to_json(accuracy.times)},
          {"memory", to_json(accuracy.memories)},
          {"trials", std::move(trials)},
          {"stopped", report.stopped}};
}

}  // namespace convoy::bench
