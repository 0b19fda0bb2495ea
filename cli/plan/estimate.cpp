#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>

#include "cli/asked.h"
#include "cli/commands.h"
#include "cli/program.h"
#include "convoy/base/text.h"
#include "convoy/nn/declare.h"
#include "convoy/planner/devices/memory_budget.h"
#include "convoy/planner/estimate/estimate.h"
#include "convoy/planner/estimate/memory_copies_bytes.h"
#include "convoy/planner/time/cluster.h"
#include "convoy/report/progress_line.h"
#include "convoy/report/table.h"
#include "convoy/train/memory_use.h"

namespace convoy::cli {

namespace {

struct EstimateOptions {
  std::string config;
  int ranks = 1;
  std::string device;
  bool json = false;
};

using parallel::Parallelism;

/// Returns the splits to tell of, by recomputation and stage of ZeRO. Without others to share with
/// no stage of ZeRO shares anything, but for what is offloaded.
std::vector<Parallelism> splits_to_show(const planner::Estimator& estimator) {
  const int64_t most = estimator.mesh().degree(parallel::kState) > 1 ? 3 : estimator.asked().zero;
  std::vector<Parallelism> out;
  for (const bool recompute : {false, true}) {
    for (int64_t zero = 0; zero <= most; ++zero) {
      auto split = estimator.asked();
      split.zero = zero;
      split.recompute = recompute;
      out.push_back(split);
    }
  }
  return out;
}

/// Bytes by kind of each of some uses; kinds that none of them has are left out.
std::vector<std::vector<std::pair<std::string, int64_t>>> kinds_in_use(
    const std::vector<parallel::MemoryUse>& uses) {
  std::set<std::string> in_use;
  for (const auto& use : uses) {
    for (const auto& [kind, bytes] : train::kinds_of(use)) {
      if (bytes > 0) in_use.insert(kind);
    }
  }
  std::vector<std::vector<std::pair<std::string, int64_t>>> out;
  for (const auto& use : uses) {
    auto kinds = train::kinds_of(use);
    std::erase_if(kinds, [&](const auto& kind) { return !in_use.contains(kind.first); });
    out.push_back(std::move(kinds));
  }
  return out;
}

Json to_json(const parallel::MemoryUse& use) {
  Json out;
  for (const auto& [kind, bytes] : train::kinds_of(use)) out[kind] = bytes;
  out["sum"] = use.sum();
  return out;
}

void print_json(const planner::Estimator& estimator, const planner::MemoryBudget& room,
                bool is_here) {
  Json out = Json::array();
  for (const auto& split : splits_to_show(estimator)) {
    const auto plan = estimator.plan(split);
    Json stages = Json::array();
    int64_t most = 0;
    for (const auto& stage : plan.stages) {
      stages.push_back(to_json(stage.memory));
      most = std::max(most, stage.memory.sum());
    }
    out.push_back({{"zero", split.zero},
                   {"peak", estimator.peak_text(split)},
                   {"gradient_checkpointing", split.recompute},
                   {"asked", split == estimator.asked()},
                   {"stages", stages},
                   {"compute_seconds", is_here ? Json(plan.timeline.length) : Json()},
                   {"fits", planner::name_of(room.fit(most))},
                   {"room_bytes", room.bytes},
                   {"most_rows", estimator.most_rows(split, room.sure_bytes(), false)}});
  }
  fmt::print("{}\n", out.dump(2));
}

/// Advice where the run does not fit.
std::string advice(const planner::Estimator& estimator, const planner::MemoryBudget& room,
                   bool holds_batch) {
  const auto asked = estimator.asked();
  if (room.fit(estimator.memory(asked).sum()) == planner::Fit::Yes) return "";
  const auto split = estimator.nearest(room.sure_bytes());
  if (!split) {
    return "Nothing fits with these options and other micro-batches, stages of ZeRO or "
           "recomputation; convoy plan tries all kinds of parallelism.\n";
  }
  auto flags = planner::flags_of(*split, asked, holds_batch);
  const auto rows = estimator.eval_rows(*split, room.sure_bytes());
  if (rows && *rows < estimator.asked_eval_rows()) {
    flags += fmt::format("{}--per_device_eval_batch_size {}", flags.empty() ? "" : " ", *rows);
  }
  return fmt::format("Fits: {}\n", flags);
}

std::string about_fewer_rows(const std::vector<int64_t>& sizes) {
  if (sizes.empty()) return "";
  return fmt::format(
      " Micro-batches of {} rows ran, and costs grow evenly: a block with as many rows as asked "
      "for would fill this host's memory.",
      fmt::join(sizes, " and "));
}

void print_table(const planner::Estimator& estimator, const planner::MemoryBudget& room,
                 bool holds_batch, bool is_here) {
  report::Table table;
  table.column("", report::Align::kLeft).column("zero").column("gradient_checkpointing").keys(3);
  const auto splits = splits_to_show(estimator);
  std::vector<parallel::MemoryUse> uses;
  for (const auto& split : splits) uses.push_back(estimator.memory(split));
  const auto kinds = kinds_in_use(uses);
  for (const auto& [kind, bytes] : kinds.front()) table.column(kind);
  table.column("sum");
  if (is_here) table.column("computing");
  table.column("fits").column("rows at most");
  for (size_t n = 0; n < splits.size(); ++n) {
    const auto& split = splits[n];
    const auto& most = uses[n];
    const auto plan = estimator.plan(split);
    std::vector<std::string> row{split == estimator.asked() ? "*" : "", std::to_string(split.zero),
                                 split.recompute ? "yes" : "no"};
    for (const auto& [kind, bytes] : kinds[n]) {
      row.push_back(bytes == 0 ? "-" : human_bytes(bytes));
    }
    row.push_back(human_bytes(most.sum()));
    if (is_here) row.push_back(human_seconds(plan.timeline.length));
    row.emplace_back(planner::name_of(room.fit(most.sum())));
    const auto rows = estimator.most_rows(split, room.sure_bytes(), false);
    row.push_back(rows < planner::Estimator::kMostRows ? std::to_string(rows) : "any");
    table.row(row);
  }
  const auto& mesh = estimator.mesh();
  using parallel::Axis;
  const auto asked = estimator.asked();
  fmt::print("{}, {} x {} rows a step: memory of {} at its most\n\n",
             mesh.num_ranks() == 1 ? mesh.to_text()
                                   : fmt::format("{} ranks, {}", mesh.num_ranks(), mesh.to_text()),
             asked.micro_batches, asked.rows,
             mesh.degree(Axis::Pipeline) > 1 ? "the stage that needs most"
             : mesh.degree(Axis::Tensor) > 1 ? "the rank that has most"
                                             : "a rank");
  const auto about = fmt::format(
      "* is what was asked for{}. Room: {}; estimates are within {:.0f} %, and a fit closer than "
      "that is at risk. Most is held {}. Rows at most are rows per micro-batch that surely fit, "
      "with as many micro-batches.{}",
      is_here ? "; times are this processor's" : "", room.text, 100 * room.spread,
      estimator.peak_text(asked), is_here ? about_fewer_rows(estimator.fewer_rows()) : "");
  fmt::print("{}\n{}\n{}", table.to_text(), wrap(about, 0), advice(estimator, room, holds_batch));
}

/// Leaves out of the room of each of some ranks what the copies in memory of their host take.
void leave_copies(planner::MemoryBudget& room, const parallel::ModelFactory& factory,
                  const options::TrainingArguments& arguments, int ranks) {
  if (arguments.memory_copy_steps.value_or(0) == 0) return;
  const auto bytes = planner::bytes_of_memory_copies(nn::declare(factory()), arguments);
  room.bytes = std::max<int64_t>(0, room.bytes - bytes / ranks);
  room.text += fmt::format(", less {} for two copies in memory", human_bytes(bytes));
}

int run_estimate(const EstimateOptions& options) {
  const auto [configured, run] =
      ask_about(options.config, {.tells = !options.json, .needs_data = false});
  auto& arguments = configured->training;
  auto room =
      planner::room_of_rank(options.device, options.ranks, arguments.parallel.device_memory);
  if (arguments.parallel.strategy == "plan" && !options.json) {
    tell(
        {"strategy = plan: the plan may decide otherwise than these options; convoy plan shows "
         "it"});
  }
  const bool is_here = options.device.empty();
  if (is_here) leave_copies(room, run.factory, arguments, options.ranks);
  if (is_here) arguments.check_for_cpu("--on h100-80 for an estimate of a GPU, or leaving it out");
  if (arguments.bf16) planner::check_bf16(options.device);
  const auto sizes = is_here ? std::vector<int64_t>() : std::vector<int64_t>{1, 2};
  report::ProgressLine progress("running each block once");
  const planner::Estimator estimator(run.factory, arguments,
                                     {.data = *run.train_data,
                                      .num_ranks = options.ranks,
                                      .eval_data = run.valid_data,
                                      .sizes = sizes,
                                      .first_pass = run.first_pass,
                                      .for_gpu = !is_here,
                                      .progress = progress.function()});
  progress.wipe();
  if (options.json) {
    print_json(estimator, room, is_here);
  } else {
    print_table(estimator, room, arguments.global_batch_size.has_value(), is_here);
  }
  return 0;
}

}  // namespace

void add_estimate(CLI::App& app, RunCommand& run) {
  auto options = std::make_shared<EstimateOptions>();
  auto* command =
      app.add_subcommand("estimate", "Estimate the memory of a training before it starts");
  add_asked(*command, options->config, options->ranks, "ranks of the job [1]");
  command
      ->add_option("--on", options->device,
                   "compare with a kind of device, such as h100-80 [this host]")
      ->check(not_empty());
  command->add_flag("--json", options->json, "print JSON, with every stage");
  command->footer(
      "Takes the options of convoy train. Each block of the model runs once with a batch of the "
      "data, with weights for that block only; the rest is computed from what ranks would keep. "
      "A run's folder stands for its run.toml. For a folder with config.json alone, and where the "
      "data's files are not there, random rows of full length are used.\n"
      "Examples:\n  convoy estimate run.toml --ranks 8\n"
      "  convoy estimate run.toml --ranks 8 --pipeline_parallel_size 2 --bf16\n"
      "  convoy estimate run.toml --ranks 8 --tensor_parallel_size 2 --zero 1\n"
      "  convoy estimate llama-folder --ranks 8 --on h100-80 --block_size 2048 --bf16\n");
  command->callback([options, &run] { run = [options] { return run_estimate(*options); }; });
}

}  // namespace convoy::cli
