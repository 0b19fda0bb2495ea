#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/program.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/machine/memory.h"
#include "convoy/plan/memory.h"
#include "convoy/report/table.h"
#include "convoy/train/from_arguments.h"
#include "convoy/train/memory.h"
#include "convoy/train/memory_use.h"
#include "convoy/train/pipeline.h"

namespace convoy::cli {

namespace {

struct EstimateOptions {
  std::string config;
  int ranks = 1;
  bool json = false;
};

/// One way to keep the state of a run.
struct Way {
  int64_t zero = 0;
  bool recompute = false;

  bool operator==(const Way&) const = default;
};

/// What a step of a rank computes and holds.
struct Estimate {
  std::vector<parallel::MemoryUse> stages;
  double seconds = 0;  ///< of computing, the optimizer left out

  const parallel::MemoryUse& most() const {
    return *std::max_element(stages.begin(), stages.end(),
                             [](const auto& a, const auto& b) { return a.sum() < b.sum(); });
  }
};

class Estimator {
 public:
  Estimator(const Configured& configured, int ranks)
      : arguments_(configured.training),
        stages_(static_cast<int>(arguments_.parallel.pipeline_parallel_size)),
        data_(ranks / stages_) {
    launch::RankEnvironment environment;
    environment.world_size = environment.local_world_size = ranks;
    const int copy = train::shard_size(arguments_.parallel, environment);
    parts_ = copy > 0 ? copy : data_;
    auto parallel = arguments_.parallel;
    parallel.only_asks = true;
    run_ = configured.task->prepare(parallel);
    configured.note_flags(run_);
    tell(*run_.notes);
    arguments_.check(true, run_.valid_data != nullptr);
    run_.factory = train::check_memory(run_.factory, arguments_, 1);
    if (parallel.threads > 0) at::set_num_threads(static_cast<int>(parallel.threads));
    costs_ = plan::profile(run_.factory(), first_batch(),
                           {train::replica_options(arguments_, true).compute_dtype});
  }

  Estimate of(const Way& way) const {
    auto options = train::replica_options(arguments_, true);
    options.zero = static_cast<int>(way.zero);
    options.recompute = way.recompute;
    const auto blocks = run_.factory();
    const auto step = parallel::step_options(blocks, options);
    const auto programs =
        parallel::make_programs(parallel::layout_of(blocks, options, {0, parts_, 0, stages_}),
                                options.pipeline.schedule, step);
    Estimate out;
    schedule::Costs times;
    for (const auto& cost : costs_) {
      times.forward.push_back(cost.forward_seconds);
      times.backward.push_back(cost.backward_seconds);
    }
    for (size_t s = 0; s < programs.layouts.size(); ++s) {
      out.stages.push_back(plan::estimate(programs.layouts[s], programs.steps[s], step,
                                          programs.alive[s].weights, costs_));
    }
    out.seconds = programs.timeline(times).length;
    return out;
  }

  /// Without others to share with no stage of ZeRO shares anything.
  Way asked() const {
    return {data_ > 1 ? arguments_.parallel.zero : 0, arguments_.gradient_checkpointing};
  }

  std::vector<Way> ways() const {
    std::vector<Way> out;
    for (const bool recompute : {false, true}) {
      for (int64_t zero = 0; zero <= (data_ > 1 ? 3 : 0); ++zero) out.push_back({zero, recompute});
    }
    return out;
  }

  int num_stages() const { return stages_; }
  int num_data() const { return data_; }
  const train::TrainingArguments& arguments() const { return arguments_; }

 private:
  /// Of the first rank.
  parallel::MicroBatch first_batch() const {
    auto options = train::stream_options(arguments_, true);
    options.layout.world = data_;
    const auto stream = run_.train_data->open(options);
    stream->start(0, 0);
    auto batch = stream->next();
    if (!batch || batch->cells.at(0).empty()) {
      fail<UsageError>("cli", "the training data has no rows to read the costs from");
    }
    return std::move(batch->cells[0]);
  }

  const train::TrainingArguments& arguments_;
  int stages_, data_, parts_ = 1;
  tasks::Run run_;
  std::vector<plan::BlockCost> costs_;
};

/// All kinds but what is offloaded.
std::vector<std::pair<std::string, int64_t>> shown(const parallel::MemoryUse& use) {
  auto out = train::kinds_of(use);
  out.pop_back();
  return out;
}

Json to_json(const parallel::MemoryUse& use) {
  Json out;
  for (const auto& [kind, bytes] : shown(use)) out[kind] = bytes;
  out["sum"] = use.sum();
  return out;
}

int run_estimate(const EstimateOptions& options) {
  const auto configured = read_config(options.config);
  const auto& arguments = configured->training;
  for (const auto* place :
       {&arguments.parallel.offload_optimizer, &arguments.parallel.offload_gradients,
        &arguments.parallel.offload_parameters}) {
    if (*place == "none") continue;
    fail<UsageError>("cli", "estimate does not count what is offloaded; try without offload_*");
  }
  const auto& parallel = arguments.parallel;
  if (parallel.strategy == "dp" || parallel.replicas > 1 ||
      (parallel.strategy == "single" && options.ranks > 1)) {
    fail<UsageError>("cli",
                     "estimate is of one process, or of a process for each rank; try "
                     "without --strategy and --replicas");
  }
  if (options.ranks % parallel.pipeline_parallel_size != 0) {
    fail<UsageError>(
        "cli", "--ranks {} does not divide into {} stages; try --ranks {}", options.ranks,
        parallel.pipeline_parallel_size,
        (options.ranks / parallel.pipeline_parallel_size + 1) * parallel.pipeline_parallel_size);
  }
  const Estimator estimator(*configured, options.ranks);
  if (options.json) {
    Json out = Json::array();
    for (const auto& way : estimator.ways()) {
      const auto estimate = estimator.of(way);
      Json stages = Json::array();
      for (const auto& use : estimate.stages) stages.push_back(to_json(use));
      out.push_back({{"zero", way.zero},
                     {"gradient_checkpointing", way.recompute},
                     {"asked", way == estimator.asked()},
                     {"stages", stages},
                     {"compute_seconds", estimate.seconds}});
    }
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  report::Table table;
  table.column("", report::Align::kLeft).column("zero").column("gradient_checkpointing");
  for (const auto& [kind, bytes] : shown({})) table.column(kind);
  table.column("sum").column("computing");
  for (const auto& way : estimator.ways()) {
    const auto estimate = estimator.of(way);
    std::vector<std::string> row{way == estimator.asked() ? "*" : "", std::to_string(way.zero),
                                 way.recompute ? "yes" : "no"};
    for (const auto& [kind, bytes] : shown(estimate.most())) {
      row.push_back(bytes == 0 ? "-" : human_bytes(bytes));
    }
    row.push_back(human_bytes(estimate.most().sum()));
    row.push_back(human_seconds(estimate.seconds));
    table.row(row);
  }
  fmt::print("{} {}, {} x {} data, {} x {} rows a step: memory of {}, of a step's computing\n\n",
             options.ranks, options.ranks == 1 ? "rank" : "ranks",
             plural(estimator.num_stages(), "stage"), estimator.num_data(),
             arguments.gradient_accumulation_steps, arguments.per_device_train_batch_size,
             estimator.num_stages() > 1 ? "the stage that needs most" : "a rank");
  fmt::print("{}\n* is what was asked for, on processors. {}.\n", table.to_text(),
             machine::memory_limit().text);
  return 0;
}

}  // namespace

void add_estimate(CLI::App& app, Run& run) {
  auto options = std::make_shared<EstimateOptions>();
  auto* command =
      app.add_subcommand("estimate", "Tell what memory a training would take, before it takes any");
  command->add_option("config", options->config, "TOML file of the run");
  command->add_option("--ranks", options->ranks, "ranks of the job [1]")->check(at_least(1));
  command->add_flag("--json", options->json, "print JSON, with every stage");
  command->footer(
      "Takes the options of convoy train. Each block of the model runs once with a batch of the "
      "data, with weights for that block only; the rest follows from what ranks would keep.\n"
      "Examples:\n  convoy estimate run.toml --ranks 8\n"
      "  convoy estimate run.toml --ranks 8 --pipeline_parallel_size 2 --bf16\n");
  command->callback([options, &run] { run = [options] { return run_estimate(*options); }; });
}

}  // namespace convoy::cli
