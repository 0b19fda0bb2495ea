#include "convoy/bench/strategies.h"

#include <algorithm>
#include <map>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/bench/trial.h"
#include "convoy/job/job.h"
#include "convoy/launch/process.h"
#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::bench {

namespace {

namespace fs = std::filesystem;

/// Returns the schedule of a trial's pipeline: the run's own, unless it is the trial's name.
std::string schedule_of(const ComparedTraining& trial, const options::ParallelArguments& own) {
  if (trial.is_pipeline()) return trial.schedule();
  const auto& from = trial.num_stages() > 1 ? own : options::ParallelArguments();
  return from.parallelism.pipeline.schedule->name;
}

/// Options of `[parallel]` that spread a step, with their values for a strategy that does not name
/// them; "" = the run's own value.
const std::map<std::string, std::string> kUnspread{{"pipeline_parallel_size", "1"},
                                                   {"tensor_parallel_size", "1"},
                                                   {"context_parallel_size", "1"},
                                                   {"expert_parallel_size", "1"},
                                                   {"expert_joined", "false"},
                                                   {"sequence_parallel", "false"},
                                                   {"zero", "0"},
                                                   {"shard_ranks", ""},
                                                   {"offload_optimizer", "none"},
                                                   {"offload_gradients", "none"},
                                                   {"offload_parameters", "none"}};

/// Rows and micro-batches of a trial's step: all trainings have the same rows, unless the batch is
/// per device. Stages of a pipeline share their rows, and need several micro-batches.
parallel::Parallelism batch_of(const ComparedTraining& trial, const StrategiesOptions& options,
                               const options::TrainingArguments& arguments) {
  const int64_t total = arguments.per_device_train_batch_size;
  const int64_t given = arguments.gradient_accumulation_steps;
  if (trial.chunks > 0) {
    const int64_t parts = trial.chunks * trial.num_shares();
    if (total * given % parts == 0) {
      return {.rows = total * given / parts, .micro_batches = trial.chunks};
    }
    fail<UsageError>("bench",
                     "--chunks {}: a step of {} rows makes no {} equal micro-batches for {}; try "
                     "--per_device_train_batch_size {}",
                     trial.chunks, total * given, parts, trial.strategy, parts);
  }
  const bool staged = trial.num_stages() > 1;
  const int64_t shares = options.per_device && !staged ? 1 : trial.num_shares();
  if (total % shares != 0) {
    fail<UsageError>("bench", "a batch of {} does not divide over {} {}; try {}", total, shares,
                     staged                         ? "pipelines"
                     : trial.num_tensor_ranks() > 1 ? "groups of tensor ranks"
                                                    : "ranks",
                     (total / shares + 1) * shares);
  }
  if (!staged) return {.rows = total / shares, .micro_batches = given};
  constexpr int64_t kMicroBatchesAStage = 4;
  int64_t pieces = kMicroBatchesAStage * trial.num_stages();
  while (total / shares % pieces != 0) --pieces;
  return {.rows = total / shares / pieces, .micro_batches = given * pieces};
}

/// Command that trains this trial with the same total batch and steps.
std::vector<std::string> command(const ComparedTraining& trial, const StrategiesOptions& options,
                                 const options::TrainingArguments& arguments,
                                 const fs::path& folder) {
  const auto batch = batch_of(trial, options, arguments);
  auto argv = launch::this_program();
  argv.insert(argv.end(), {"train", options.config});
  argv.insert(argv.end(), options.overrides.begin(), options.overrides.end());
  argv.push_back("--output.dir=" + folder.string());
  argv.push_back("--output.overwrite=true");
  argv.push_back(fmt::format("--train.per_device_train_batch_size={}", batch.rows));
  argv.push_back(fmt::format("--train.gradient_accumulation_steps={}", batch.micro_batches));
  argv.emplace_back("--train.global_batch_size=none");
  auto spread = trial.options();
  for (const auto& [name, value] : kUnspread) spread.try_emplace(name, value);
  for (const auto& [name, value] : spread) {
    if (!value.empty()) argv.push_back(fmt::format("--parallel.{}={}", name, value));
  }
  const auto& own = arguments.parallel;
  const auto schedule = schedule_of(trial, own);
  argv.push_back("--parallel.pipeline_schedule=" + schedule);
  const bool as_asked =
      schedule == own.parallelism.pipeline.schedule->name && trial.num_stages() == own.num_stages();
  if (!as_asked) {
    argv.insert(argv.end(), {"--parallel.pipeline_splits=", "--parallel.pipeline_schedule_file=",
                             "--parallel.recompute_layers="});
  }
  if (!trial.has_virtual_stages()) {
    argv.push_back("--parallel.pipeline_placement=auto");
    argv.push_back(fmt::format("--parallel.pipeline_virtual_stages={}",
                               options::ParallelArguments().parallelism.pipeline.virtual_stages));
  }
  if (!trial.is_pipeline()) {
    argv.insert(argv.end(), {"--parallel.pipeline_memory=", "--parallel.pipeline_costs="});
  }
  argv.push_back("--parallel.dp_batch=per_device");
  argv.push_back("--parallel.strategy=" + (trial.has_processes() ? "ddp" : trial.strategy));
  const bool offloads = spread.at("offload_optimizer") != "none";
  argv.push_back("--parallel.offload_dir=" + (offloads ? folder.parent_path().string() : ""));
  argv.push_back(fmt::format("--parallel.replicas={}", trial.strategy == "dp" ? trial.ranks : 0));
  argv.push_back(
      fmt::format("--parallel.threads={}", std::max<int64_t>(1, arguments.parallel.threads)));
  if (trial.slow_link && job::visible_devices(arguments.parallel.device)[0].is_cpu()) {
    argv.push_back("--parallel.backend=gloo");
  }
  if (!trial.learning_rate.empty()) {
    argv.push_back("--train.learning_rate=" + trial.learning_rate);
  }
  if (trial.has_processes()) {
    argv.insert(argv.end(), {"--nproc", std::to_string(trial.ranks)});
  } else {
    argv.push_back("--parallel.backend=auto");
  }
  return argv;
}

/// Returns the columns of a row that are known before it trains.
StrategyRow row_of(const ComparedTraining& trial, const StrategiesOptions& options,
                   const options::TrainingArguments& arguments) {
  StrategyRow row;
  row.strategy = trial.strategy;
  if (trial.num_stages() > 1) {
    row.micro_batches = batch_of(trial, options, arguments).micro_batches;
  }
  row.ranks = trial.ranks;
  row.threads = static_cast<int>(std::max<int64_t>(1, arguments.parallel.threads));
  if (!trial.learning_rate.empty()) parse_number(trial.learning_rate, row.learning_rate);
  return row;
}

/// Row of a trial from `json`, its all_results.json.
StrategyRow result(const ComparedTraining& trial, const StrategiesOptions& options,
                   const options::TrainingArguments& arguments, const Json& json) {
  auto row = row_of(trial, options, arguments);
  row.seconds = json.at("train_steady_seconds");
  row.eval_seconds = json.value("eval_runtime", row.eval_seconds);
  row.samples_per_second = json.at("train_steady_samples_per_second");
  row.collectives_per_step = json.at("train_collectives_per_step");
  row.bytes_per_step = json.at("train_bytes_per_step");
  row.peak_memory_bytes_per_rank =
      static_cast<int64_t>(json.at("peak_memory_bytes_per_rank").get<double>());
  row.device_memory_bytes_per_rank =
      static_cast<int64_t>(json.value("peak_device_memory_bytes_per_rank", 0.0));
  row.loss = json.value("train_final_loss", row.loss);
  for (const auto& [key, value] : json.items()) {
    auto at = key.find("_at_");
    if (key.rfind("eval_", 0) != 0) continue;
    auto name =
        at == std::string::npos ? key.substr(5) : key.substr(5, at - 5) + "@" + key.substr(at + 4);
    if (at != std::string::npos || name == "loss") row.metrics[name] = value;
  }
  return row;
}

/// Makes the table as Hugging Face's guide lays it out, with its figures: GPT-2 124M, 4 x 1,024
/// tokens a device, two TITAN RTX. The guide calls steps samples per second.
report::Table per_device_table(const std::vector<std::pair<ComparedTraining, Json>>& results) {
  struct Known {
    const char* name;
    const char* runtime;
    const char* steps;
  };
  constexpr Known kGuide[] = {{"dp-2", "110.6 s", "1.808"},
                              {"ddp-2", "101.9 s", "1.963"},
                              {"ddp-2-slow", "131.4 s", "1.522"}};
  report::Table table;
  table.column("type", report::Align::kLeft).column("fast link", report::Align::kLeft);
  for (const char* title : {"train_runtime", "steps/s", "samples/s", "epoch",
                            "the guide's train_runtime", "the guide's steps/s"}) {
    table.column(title);
  }
  for (const auto& [trial, json] : results) {
    const auto* known = std::find_if(std::begin(kGuide), std::end(kGuide),
                                     [&](const auto& row) { return trial.name() == row.name; });
    const bool in_guide = known != std::end(kGuide);
    const auto number = [&](const char* key) { return json.at(key).get<double>(); };
    table.row({fmt::format("{}:{}", trial.ranks, trial.strategy),
               trial.ranks == 1  ? "-"
               : trial.slow_link ? "no"
                                 : "yes",
               fmt::format("{:.1f} s", number("train_runtime")),
               fmt::format("{:.3f}", number("train_steps_per_second")),
               fmt::format("{:.2f}", number("train_samples_per_second")),
               fmt::format("{:.2f}", number("epoch")), in_guide ? known->runtime : "-",
               in_guide ? known->steps : "-"});
  }
  return table;
}

}  // namespace

StrategiesResult compare_strategies(const StrategiesOptions& options,
                                    const options::TrainingArguments& arguments,
                                    const std::filesystem::path& output,
                                    const std::function<void(const std::string&)>& say,
                                    const std::function<void(const StrategiesResult&)>& keep) {
  const auto all = trials(options);
  std::vector<std::pair<ComparedTraining, Json>> results;
  StrategiesResult so_far;
  auto& rows = so_far.rows;
  for (const auto& trial : all) command(trial, options, arguments, output);  // before any runs
  for (const auto& trial : all) {
    const auto folder = output / trial.name();
    say(fmt::format("{} on {}{}{}{} ({} of {})", trial.strategy, plural(trial.ranks, "rank"),
                    trial.slow_link ? " over a slow link" : "",
                    trial.chunks > 0 ? fmt::format(", {} micro-batches", trial.chunks) : "",
                    trial.learning_rate.empty() ? "" : ", learning rate " + trial.learning_rate,
                    rows.size() + 1, all.size()));
    launch::ProcessOptions process;
    process.capture = false;
    if (trial.slow_link) process.env["NCCL_P2P_DISABLE"] = "1";
    const auto done = launch::run_process(command(trial, options, arguments, folder), process);
    std::string failure = done.ok() ? "" : fmt::format("exit code {}", done.exit_code);
    if (done.ok()) {
      try {
        const auto path = folder / "all_results.json";
        results.emplace_back(trial, parse_json(read_file(path), path.string()));
      } catch (const FileError& error) {
        failure = error.what();
      }
    }
    rows.push_back(failure.empty() ? result(trial, options, arguments, results.back().second)
                                   : row_of(trial, options, arguments));
    rows.back().failure = std::move(failure);
    if (results.empty()) continue;
    fill_speedups(rows);
    so_far.table = options.per_device ? per_device_table(results) : strategies_table(rows);
    keep(so_far);
  }
  if (results.empty()) {
    fail<Error>("bench", "no training succeeded: {} on {} ended with {}; the messages stand above",
                rows.at(0).strategy, plural(rows.at(0).ranks, "rank"), rows.at(0).failure);
  }
  return so_far;
}

}  // namespace convoy::bench
