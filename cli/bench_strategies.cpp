#include <fmt/ranges.h>
#include <torch/version.h>

#include <algorithm>
#include <filesystem>

#include "cli/bench.h"
#include "cli/program.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/launch/process.h"
#include "convoy/machine/cores.h"
#include "convoy/machine/host.h"
#include "convoy/report/strategies.h"

namespace convoy::cli {

namespace {

namespace fs = std::filesystem;

/// A name of --strategies: one of `parallel.strategy`, or zero1 to zero3, also with two copies of
/// the state (-hybrid) or with all on the disk that the stage allows (-disk); or a
/// `pipeline_schedule`, with as many stages as ranks.
struct Trial {
  std::string strategy;
  int ranks = 1;
  bool slow_link = false;

  std::string name() const {
    return fmt::format("{}-{}{}", strategy, ranks, slow_link ? "-slow" : "");
  }

  /// Stage of ZeRO.
  int zero() const { return strategy.starts_with("zero") ? strategy[4] - '0' : 0; }
  bool is_hybrid() const { return strategy.ends_with("-hybrid"); }
  bool is_offloaded() const { return strategy.ends_with("-disk"); }
  bool is_pipeline() const {
    return strategy == "gpipe" || strategy == "1f1b" || strategy == "interleaved";
  }
  bool has_processes() const { return strategy == "ddp" || zero() > 0 || is_pipeline(); }
};

std::vector<Trial> trials(const StrategyBench& options) {
  std::vector<Trial> out;
  for (const auto& strategy : options.strategies) {
    constexpr const char* kAll[] = {"single",       "dp",         "ddp",          "zero1",
                                    "zero2",        "zero3",      "zero1-hybrid", "zero2-hybrid",
                                    "zero3-hybrid", "zero1-disk", "zero2-disk",   "zero3-disk",
                                    "gpipe",        "1f1b",       "interleaved"};
    if (std::find(std::begin(kAll), std::end(kAll), strategy) == std::end(kAll)) {
      fail<UsageError>("cli", "--strategies has '{}'; expected {}", strategy,
                       fmt::join(kAll, ", "));
    }
    if (strategy == "single") {
      out.push_back({strategy, 1});
      continue;
    }
    for (int ranks : options.ranks) {
      if (ranks < 1) fail<UsageError>("cli", "--ranks has {}; expected at least 1", ranks);
      if (ranks > 1) out.push_back({strategy, ranks});
      if (ranks > 1 && out.back().is_hybrid() && (ranks < 4 || ranks % 2 != 0)) {
        fail<UsageError>("cli",
                         "{} on {} ranks: two copies of the state need an even number of ranks, 4 "
                         "at least; try --ranks 4",
                         strategy, ranks);
      }
      if (ranks > 1 && strategy == "ddp" && options.per_device) {
        out.push_back({strategy, ranks, /*slow_link=*/true});
      }
    }
  }
  if (out.empty())
    fail<UsageError>("cli", "nothing to train; try --strategies single,ddp --ranks 2");
  return out;
}

/// Into how many micro-batches more than it has a trial cuts the run's batch: the stages of a
/// pipeline see the same rows, and each wants some micro-batches.
int64_t pieces_of(const Trial& trial, const train::TrainingArguments& arguments) {
  if (!trial.is_pipeline()) return 1;
  constexpr int64_t kMicroBatchesAStage = 4;
  const int64_t total = arguments.per_device_train_batch_size;
  for (int64_t pieces = kMicroBatchesAStage * trial.ranks; pieces > 0; --pieces) {
    const bool in_groups = pieces * arguments.gradient_accumulation_steps % trial.ranks == 0;
    if (total % pieces == 0 && (in_groups || trial.strategy != "interleaved")) return pieces;
  }
  fail<UsageError>("cli", "a batch of {} makes no micro-batches for {} interleaved stages; try {}",
                   total, trial.ranks, (total / trial.ranks + 1) * trial.ranks);
}

/// The command that trains this trial: same total batch, same steps.
std::vector<std::string> command(const Trial& trial, const StrategyBench& options,
                                 const train::TrainingArguments& arguments,
                                 const fs::path& folder) {
  const int64_t total = arguments.per_device_train_batch_size;
  const int64_t pieces = pieces_of(trial, arguments);
  const int64_t shares = trial.is_pipeline() ? pieces : options.per_device ? 1 : trial.ranks;
  if (total % shares != 0) {
    fail<UsageError>("cli", "a batch of {} does not divide over {} ranks; try {}", total,
                     trial.ranks, (total / trial.ranks + 1) * trial.ranks);
  }
  auto argv = launch::this_program();
  argv.insert(argv.end(), {"train", options.config});
  // What was typed for this command and is an option of the run goes along.
  Configured scratch;
  const auto& typed = typed_args();
  auto rest = scratch.table.take_overrides(typed);
  for (const auto& option : scratch.table.options()) {
    if (!option.source.empty()) argv.push_back("--" + option.key() + "=" + option.plain());
  }
  argv.push_back("--output.dir=" + folder.string());
  argv.push_back("--output.overwrite=true");
  argv.push_back(fmt::format("--train.per_device_train_batch_size={}", total / shares));
  argv.push_back(fmt::format("--train.gradient_accumulation_steps={}",
                             arguments.gradient_accumulation_steps * pieces));
  argv.push_back(
      fmt::format("--parallel.pipeline_parallel_size={}", trial.is_pipeline() ? trial.ranks : 1));
  argv.push_back("--parallel.pipeline_schedule=" +
                 (trial.is_pipeline() ? trial.strategy : std::string("1f1b")));
  const auto& own = arguments.parallel;
  const bool as_asked = trial.strategy == own.pipeline_schedule &&
                        trial.ranks == static_cast<int>(own.pipeline_parallel_size);
  if (!as_asked) argv.push_back("--parallel.pipeline_splits=");
  argv.push_back("--parallel.dp_batch=per_device");
  argv.push_back("--parallel.strategy=" + (trial.has_processes() ? "ddp" : trial.strategy));
  argv.push_back(fmt::format("--parallel.zero={}", trial.zero()));
  if (trial.zero() > 0) {
    argv.push_back("--parallel.shard_ranks=" +
                   (trial.is_hybrid() ? std::to_string(trial.ranks / 2) : "all"));
  }
  const char* const place = trial.is_offloaded() ? "disk" : "none";
  argv.push_back(fmt::format("--parallel.offload_optimizer={}", place));
  argv.push_back(fmt::format("--parallel.offload_gradients={}", trial.zero() < 2 ? "none" : place));
  argv.push_back(
      fmt::format("--parallel.offload_parameters={}", trial.zero() < 3 ? "none" : place));
  argv.push_back("--parallel.offload_dir=" +
                 (trial.is_offloaded() ? folder.parent_path().string() : ""));
  argv.push_back(fmt::format("--parallel.replicas={}", trial.strategy == "dp" ? trial.ranks : 0));
  argv.push_back(
      fmt::format("--parallel.threads={}", std::max<int64_t>(1, arguments.parallel.threads)));
  if (trial.slow_link && train::visible_devices(arguments.parallel.device)[0].is_cpu()) {
    argv.push_back("--parallel.backend=gloo");
  }
  if (trial.has_processes()) {
    argv.insert(argv.end(), {"--nproc", std::to_string(trial.ranks)});
  } else {
    argv.push_back("--parallel.backend=auto");
  }
  return argv;
}

/// `json`: its all_results.json.
report::StrategyRow result(const Trial& trial, const train::TrainingArguments& arguments,
                           const Json& json) {
  report::StrategyRow row;
  row.strategy = trial.strategy;
  row.ranks = trial.ranks;
  row.threads = static_cast<int>(std::max<int64_t>(1, arguments.parallel.threads));
  row.seconds = json.at("train_steady_seconds");
  row.samples_per_second = json.at("train_steady_samples_per_second");
  row.exchanges_per_step = json.at("train_exchanges_per_step");
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

/// As Hugging Face's guide lays it out, with its figures: GPT-2 124M, 4 x 1,024 tokens a device,
/// two TITAN RTX. What it calls samples per second are steps.
report::Table per_device_table(const std::vector<std::pair<Trial, Json>>& results) {
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

int bench_strategies(const StrategyBench& options) {
  auto configured = read_config(options.config);
  const auto& arguments = configured->training;
  const auto all = trials(options);
  const bool keep = !options.output.empty();
  const fs::path output = keep ? fs::path(options.output) : unique_folder("convoy-bench");
  make_folder(output);  // where the first run may offload to
  std::vector<report::StrategyRow> rows;
  std::vector<std::pair<Trial, Json>> results;
  for (const auto& trial : all) command(trial, options, arguments, output);  // before any runs
  for (const auto& trial : all) {
    auto name = trial.name();
    fmt::print("\n== {} on {} {}{} ({} of {})\n", trial.strategy, trial.ranks,
               trial.ranks == 1 ? "rank" : "ranks", trial.slow_link ? " over a slow link" : "",
               rows.size() + 1, all.size());
    std::fflush(stdout);
    launch::ProcessOptions process;
    process.capture = false;
    if (trial.slow_link) process.env["NCCL_P2P_DISABLE"] = "1";
    auto done = launch::run_process(command(trial, options, arguments, output / name), process);
    if (!done.ok()) {
      if (!keep) fs::remove_all(output);
      fail<Error>("cli",
                  "training with {} on {} ranks ended with exit code {}; its message stands "
                  "above",
                  trial.strategy, trial.ranks, done.exit_code);
    }
    const auto path = output / name / "all_results.json";
    results.emplace_back(trial, parse_json(read_file(path), path.string()));
    rows.push_back(result(trial, arguments, results.back().second));
  }
  report::fill_speedups(rows);
  const auto lines = machine::machine_lines(machine::read_host(), machine::usable_cores(),
                                            {{"torch", TORCH_VERSION}});
  const auto table =
      options.per_device ? per_device_table(results) : report::strategies_table(rows);
  fmt::print("\n");
  for (const auto& line : lines) fmt::print("{}\n", line);
  configured->task->prepare(arguments.parallel);
  const auto baseline = configured->task->baseline();
  fmt::print("\n{}\n{}\n", table.to_markdown(), baseline);
  if (!keep) {
    fs::remove_all(output);
    return 0;
  }
  std::string markdown;
  for (const auto& line : lines) markdown += line + "  \n";
  markdown += "\n" + table.to_markdown() + "\n" + baseline + "\n";
  write_file(output / "strategies.md", markdown);
  write_file(output / "strategies.json", report::strategies_json(rows).dump(2) + "\n");
  write_file(output / "strategies.svg",
             report::strategies_svg(rows, "The same training, strategy by strategy",
                                    lines.empty() ? "" : lines.front()));
  fmt::print("\nwrote {0}/strategies.json, {0}/strategies.md and {0}/strategies.svg\n",
             output.string());
  return 0;
}

}  // namespace convoy::cli
