#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "cli/asked.h"
#include "cli/commands.h"
#include "cli/plan/plan_settings.h"
#include "cli/plan/verified.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/bench/run_step.h"
#include "convoy/machine/host.h"
#include "convoy/planner/plan/planner.h"
#include "convoy/planner/search/accuracy.h"
#include "convoy/planner/search/decision.h"
#include "convoy/report/progress_line.h"
#include "convoy/report/table.h"

namespace convoy::cli {

namespace {

struct BenchPlanFlags {
  std::string config, profile, output;
  planner::PlanRequest request;
  int64_t plans = 8, steps = 10, rounds = 3;
  bool json = false;
};

/// Split that was drawn, or that the search chose, with its prediction and its training.
struct Drawn {
  parallel::Parallelism split;
  planner::Prediction prediction;
  bool is_first = false;               ///< the plan that a search returns
  std::vector<double> seconds = {};    ///< of rounds
  std::vector<double> predicted = {};  ///< of these
  double memory_bytes = 0;
  std::string failure = {};

  planner::TimedSplit time() const { return {median(predicted), median(seconds)}; }
  planner::TimedSplit memory() const {
    return {static_cast<double>(prediction.memory.sum()), memory_bytes};
  }
};

/// Returns the plan, and splits that fit, drawn by the seed.
std::vector<Drawn> draw(const planner::PlanReport& report, int64_t plans, uint64_t seed) {
  std::vector<Drawn> out;
  const auto* best = report.found.best();
  if (best == nullptr) {
    fail<UsageError>("cli", "no split of this run fits this host; try a smaller model or batch");
  }
  out.push_back({.split = best->split, .prediction = best->prediction, .is_first = true});
  const auto blocks = static_cast<int64_t>(report.numbers.model.blocks.size());
  const auto number = static_cast<size_t>(plans);
  constexpr size_t kOfWhich = 20;  // many of what is drawn may not fit
  for (const auto& split : planner::draw_splits(report.space, blocks, seed, kOfWhich * number)) {
    if (out.size() == number + 1) break;
    if (split == best->split) continue;
    try {
      const auto prediction =
          planner::predict(report.numbers, report.cluster, report.space.facts, split);
      if (prediction.fit != planner::Fit::No) out.push_back({split, prediction});
    } catch (const UsageError&) {  // the model does not go into it
    }
  }
  return out;
}

double spread_of(const std::vector<double>& seconds) {
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  return *most / *least - 1;
}

/// Trains each split in fresh ranks, all of them in turns, and splits whose times scatter twice
/// more. `prepare` measures the costs anew in each round but the first, since a host's speed
/// changes within minutes.
void measure(std::vector<Drawn>& all, Configured& configured, const BenchPlanFlags& flags,
             const std::function<planner::PlanReport()>& prepare) {
  constexpr double kRepeats = 0.05;
  constexpr int64_t kMore = 2;
  const TrialFolder folder;
  report::ProgressLine progress("training");
  const auto show = progress.function();
  const auto number = static_cast<int64_t>(all.size());
  for (int64_t round = 0; round < flags.rounds + kMore; ++round) {
    std::optional<planner::PlanReport> costs;
    for (int64_t n = 0; n < number; ++n) {
      auto& one = all[static_cast<size_t>(n)];
      const bool repeats = round >= flags.rounds && spread_of(one.seconds) <= kRepeats;
      if (!one.failure.empty() || repeats) continue;
      if (round > 0 && !costs) costs = prepare();
      const auto predicted =
          costs ? planner::predict(costs->numbers, costs->cluster, costs->space.facts, one.split)
                : one.prediction;
      one.predicted.push_back(predicted.seconds);
      show(std::min(round, flags.rounds) * number + n, flags.rounds * number);
      const auto file = folder.write(configured, one.split);
      const auto measured = bench::run_step(file, {}, one.split.num_ranks(), flags.steps);
      one.failure = measured.failure;
      one.seconds.push_back(measured.seconds);
      one.memory_bytes = measured.memory_bytes;
    }
  }
  progress.wipe();
}

/// Errors of all predictions whose training ran.
struct Accuracy {
  planner::Errors time, memory;
  double tau = 0, regret = 0;
};

Accuracy accuracy_of(const std::vector<Drawn>& all) {
  std::vector<planner::TimedSplit> times, memories;
  for (const auto& one : all) {
    if (!one.failure.empty()) continue;
    times.push_back(one.time());
    memories.push_back(one.memory());
  }
  return {planner::errors_of(times), planner::errors_of(memories), planner::kendalls_tau(times),
          planner::regret_of(times)};
}

Json to_json(const std::vector<Drawn>& all, const planner::PlanReport& report, uint64_t seed) {
  const auto accuracy = accuracy_of(all);
  Json out{{"seed", seed},
           {"run", report.what},
           {"machine", machine::machine_lines({{"torch", TORCH_VERSION}})},
           {"time", planner::to_json(accuracy.time)},
           {"memory", planner::to_json(accuracy.memory)},
           {"kendalls_tau", accuracy.tau},
           {"regret", accuracy.regret},
           {"trials", Json::array()}};
  for (const auto& one : all) {
    auto row = planner::to_json({one.split, one.prediction});
    row["first"] = one.is_first;
    if (one.failure.empty()) row["seconds"] = one.time().predicted;
    row["rounds_predicted_seconds"] = one.predicted;
    row["measured_seconds"] = one.failure.empty() ? one.time().measured : 0.0;
    row["rounds_seconds"] = one.seconds;
    row["measured_memory_bytes"] = one.memory_bytes;
    row["failure"] = one.failure;
    out["trials"].push_back(std::move(row));
  }
  return out;
}

void print_trials(const std::vector<Drawn>& all) {
  report::Table table;
  table.column("", report::Align::kLeft).column("split", report::Align::kLeft);
  table.column("step predicted").column("measured").column("off");
  table.column("memory predicted").column("counted").column("off");
  for (const auto& one : all) {
    const bool went_well = one.failure.empty();
    table.row(
        {one.is_first ? "*" : "", one.split.to_text(), planner::step_text(median(one.predicted)),
         went_well ? planner::step_text(one.time().measured) : one.failure,
         went_well ? one.time().off() : "-", human_bytes(one.prediction.memory.sum()),
         went_well ? human_bytes(one.memory_bytes) : "-", went_well ? one.memory().off() : "-"});
  }
  fmt::print("\n{}", table.to_text());
}

int bench_plan(BenchPlanFlags flags) {
  flags.request.where = planner::ThisHost{.profile = flags.profile};
  check_place("--output", flags.output, flags.config, "plan.json");
  const auto [configured, run] = ask_about(flags.config, {.tells = !flags.json});
  report::ProgressLine progress("planning");
  const auto report = planner::make_plan(run.factory, configured->training, *run.train_data,
                                         flags.request, progress.function());
  progress.wipe();
  check_on_this_host(report.cluster, "bench plan", flags.profile);
  const auto seed = static_cast<uint64_t>(configured->training.seed);
  auto all = draw(report, flags.plans, seed);
  measure(all, *configured, flags, [&] {
    return planner::prepare_plan(run.factory, configured->training, *run.train_data, flags.request);
  });
  const auto json = to_json(all, report, seed);
  if (!flags.output.empty()) write_file(flags.output, json.dump(1) + "\n");
  if (flags.json) {
    fmt::print("{}\n", json.dump(2));
  } else {
    for (const auto& line : machine::machine_lines({{"torch", TORCH_VERSION}})) {
      fmt::print("{}\n", line);
    }
    fmt::print("{}\n", report.what);
    print_trials(all);
    const auto accuracy = accuracy_of(all);
    fmt::print("\n* is the plan; the others are drawn with seed {}\n", seed);
    fmt::print("time: {}\nmemory: {}\n", accuracy.time.to_text(), accuracy.memory.to_text());
    fmt::print(
        "order: Kendall's tau {:.2f}; the split predicted to be fastest is {:.1f} % slower than "
        "the fastest\n",
        accuracy.tau, 100 * accuracy.regret);
  }
  const bool all_failed =
      std::all_of(all.begin(), all.end(), [](const Drawn& one) { return !one.failure.empty(); });
  return all_failed ? 1 : 0;
}

}  // namespace

void add_bench_plan(CLI::App& bench, RunCommand& run) {
  auto flags = std::make_shared<BenchPlanFlags>();
  auto* command =
      bench.add_subcommand("plan", "Compare convoy plan's predictions with measured trainings");
  add_asked(*command, flags->config, flags->request.num_ranks,
            "ranks on this host [those of the profile, else the processor's cores]");
  command->add_option("--plans", flags->plans, "randomly drawn splits beside the plan [8]")
      ->check(at_least(1));
  command->add_option("--steps", flags->steps, "steps to time in each training [10]")
      ->check(at_least(1));
  command
      ->add_option("--rounds", flags->rounds,
                   "trainings of each split, interleaved; the median counts [3]")
      ->check(at_least(1));
  command
      ->add_option("--max_rows,--max-rows", flags->request.most_rows,
                   "maximum rows per micro-batch [64]")
      ->check(at_least(1));
  command
      ->add_option("--profile", flags->profile,
                   "costs measured by convoy profile, instead of measuring them")
      ->check(not_empty());
  command->add_option("--output", flags->output, "write the full results to this JSON file")
      ->check(not_empty());
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(
      "Takes the options of convoy train. For each kind of parallelism in turn a split is drawn "
      "with --seed, with its micro-batches, schedule, recomputation, zero_reduce, prefetch, "
      "reshard_after_forward and, with --offload_dir, offload. Each is trained in fresh ranks, and "
      "twice more if rounds differ by more than 5 %. "
      "Costs are measured anew in each round, and the median of the predictions counts, as that of "
      "the trainings does. Use an idle machine.\n"
      "Example:\n  convoy bench plan run.toml --ranks 2 --threads 1 --seed 7 --plans 12\n");
  command->callback([flags, &run] { run = [flags] { return bench_plan(*flags); }; });
}

}  // namespace convoy::cli
