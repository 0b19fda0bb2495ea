#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "cli/program.h"
#include "convoy/base/text.h"
#include "convoy/machine/memory_limit.h"
#include "convoy/report/table.h"
#include "convoy/train/setup/estimate.h"
#include "convoy/train/setup/memory_use.h"

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

Way asked_of(const train::Estimator& estimator) {
  return {estimator.zero(), estimator.recompute()};
}

std::vector<Way> ways_of(const train::Estimator& estimator) {
  const int64_t most = estimator.mesh().degree(schedule::kRows) > 1 ? 3 : 0;
  std::vector<Way> out;
  for (const bool recompute : {false, true}) {
    for (int64_t zero = 0; zero <= most; ++zero) out.push_back({zero, recompute});
  }
  return out;
}

const schedule::MemoryUse& most_of(const schedule::RunPlan& plan) {
  return std::max_element(
             plan.stages.begin(), plan.stages.end(),
             [](const auto& a, const auto& b) { return a.memory.sum() < b.memory.sum(); })
      ->memory;
}

/// All kinds but what is offloaded.
std::vector<std::pair<std::string, int64_t>> shown(const schedule::MemoryUse& use) {
  auto out = train::kinds_of(use);
  out.pop_back();
  return out;
}

Json to_json(const schedule::MemoryUse& use) {
  Json out;
  for (const auto& [kind, bytes] : shown(use)) out[kind] = bytes;
  out["sum"] = use.sum();
  return out;
}

void print_json(const train::Estimator& estimator) {
  Json out = Json::array();
  for (const auto& way : ways_of(estimator)) {
    const auto plan = estimator.plan(way.zero, way.recompute);
    Json stages = Json::array();
    for (const auto& stage : plan.stages) stages.push_back(to_json(stage.memory));
    out.push_back({{"zero", way.zero},
                   {"gradient_checkpointing", way.recompute},
                   {"asked", way == asked_of(estimator)},
                   {"stages", stages},
                   {"compute_seconds", plan.timeline.length}});
  }
  fmt::print("{}\n", out.dump(2));
}

void print_table(const train::Estimator& estimator, const train::TrainingArguments& arguments) {
  report::Table table;
  table.column("", report::Align::kLeft).column("zero").column("gradient_checkpointing");
  for (const auto& [kind, bytes] : shown({})) table.column(kind);
  table.column("sum").column("computing");
  for (const auto& way : ways_of(estimator)) {
    const auto plan = estimator.plan(way.zero, way.recompute);
    const auto& most = most_of(plan);
    std::vector<std::string> row{way == asked_of(estimator) ? "*" : "", std::to_string(way.zero),
                                 way.recompute ? "yes" : "no"};
    for (const auto& [kind, bytes] : shown(most)) {
      row.push_back(bytes == 0 ? "-" : human_bytes(bytes));
    }
    row.push_back(human_bytes(most.sum()));
    row.push_back(human_seconds(plan.timeline.length));
    table.row(row);
  }
  const auto& mesh = estimator.mesh();
  using schedule::Axis;
  fmt::print("{}, {} x {} rows a step: memory of {}, of a step's computing\n\n",
             mesh.num_ranks() == 1 ? mesh.to_text()
                                   : fmt::format("{} ranks, {}", mesh.num_ranks(), mesh.to_text()),
             estimator.num_micro_batches(), arguments.per_device_train_batch_size,
             mesh.degree(Axis::Pipeline) > 1 ? "the stage that needs most"
             : mesh.degree(Axis::Tensor) > 1 ? "the rank that has most"
                                             : "a rank");
  fmt::print("{}\n* is what was asked for, on processors. {}.\n", table.to_text(),
             machine::memory_limit().text);
}

int run_estimate(const EstimateOptions& options) {
  const auto configured = read_config(options.config);
  auto& arguments = configured->training;
  auto parallel = arguments.parallel;
  parallel.only_asks = true;
  auto run = configured->task->prepare(parallel);
  configured->note_flags(run);
  tell(*run.notes);
  arguments.check(true, run.valid_data != nullptr);
  const train::Estimator estimator(run.factory, arguments, *run.train_data, options.ranks);
  if (options.json) {
    print_json(estimator);
  } else {
    print_table(estimator, arguments);
  }
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
      "  convoy estimate run.toml --ranks 8 --pipeline_parallel_size 2 --bf16\n"
      "  convoy estimate run.toml --ranks 8 --tensor_parallel_size 2 --zero 1\n");
  command->callback([options, &run] { run = [options] { return run_estimate(*options); }; });
}

}  // namespace convoy::cli
