#include <fmt/format.h>

#include <memory>
#include <optional>

#include "cli/asked.h"
#include "cli/commands.h"
#include "cli/program.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/comm/agree.h"
#include "convoy/launch/environment.h"
#include "convoy/machine/cores.h"
#include "convoy/planner/cost/profile_file.h"
#include "convoy/planner/search/decision.h"
#include "convoy/report/progress_line.h"
#include "convoy/report/table.h"

namespace convoy::cli {

namespace {

struct ProfileFlags {
  std::string config, output;
  int ranks = 0;
};

std::string on_hosts(const planner::Profile& profile) {
  const int hosts = profile.sums.num_hosts;
  return hosts > 1 ? fmt::format(" on {}", plural(hosts, "host")) : "";
}

/// Prints times of an all-reduce, over ranks of one host and over all.
void print_sums(const planner::Profile& profile) {
  const auto print = [](const std::string& of, const planner::SumTimes& sums) {
    constexpr double kBytes = 16 << 20;
    fmt::print("all-reduce of 16 MiB over {}: {}\n", of,
               planner::step_text(sums.seconds + kBytes * sums.seconds_per_byte));
  };
  const auto hosts = profile.sums.num_hosts;
  const auto here = profile.of.ranks / hosts;
  if (profile.of.ranks > 1) fmt::print("\n");
  if (here > 1) print(plural(here, "rank") + " of a host", profile.sums.inside);
  if (hosts > 1) print(plural(profile.of.ranks, "rank") + on_hosts(profile), profile.sums.all);
}

/// Prints the blocks of the largest micro-batch on one tensor rank, without those equal to the one
/// before.
void print_blocks(const planner::Profile& profile) {
  auto chosen = profile.blocks.begin();
  for (auto at = profile.blocks.begin(); at != profile.blocks.end(); ++at) {
    if (at->first.tensor * at->first.context == 1) chosen = at;
  }
  report::Table table;
  table.column("block", report::Align::kLeft).column("forward").column("backward");
  table.column("of it weights").column("kept");
  for (size_t b = 0; b < profile.names.size(); ++b) {
    const auto& cost = chosen->second[b];
    if (b > 0 && chosen->second[b - 1].forward_seconds == cost.forward_seconds) continue;
    table.row({profile.names[b], planner::step_text(cost.forward_seconds),
               planner::step_text(cost.backward_seconds), planner::step_text(cost.weight_seconds),
               human_bytes(cost.kept_bytes)});
  }
  fmt::print("{}, {}, {}{} x {}; a micro-batch of {}\n\n{}", profile.of.model, profile.of.machine,
             plural(profile.of.ranks, "rank"), on_hosts(profile),
             plural(profile.of.threads, "thread"), plural(chosen->first.rows, "row"),
             table.to_text());
  print_sums(profile);
}

planner::Profile measure(const Asked& asked, int num_ranks,
                         const std::optional<planner::SumsOfHosts>& sums, int threads) {
  report::ProgressLine progress("profiling");
  auto out = planner::measure_profile(
      asked.run.factory, asked.configured->training, *asked.run.train_data,
      {.number = num_ranks, .sums = sums, .threads = threads}, progress.function());
  progress.wipe();
  return out;
}

/// Warns of a bound process: the first rank measures for all of its host, but only on the cores
/// that it may use.
void warn_of_bound_cores(const job::Job& met) {
  const int needed = met.environment.local_world_size * met.threads;
  const int cores = machine::usable_cores();
  if (met.is_main() && cores < needed) {
    tell(
        {fmt::format("warning: rank 0 may use {}, but measures for {} of {}; if it is bound to a "
                     "part of the host, try convoy launch --bind none",
                     plural(cores, "core"), plural(met.environment.local_world_size, "rank"),
                     plural(met.threads, "thread"))});
  }
}

/// Measures a profile with the ranks that a launcher started, whatever their hosts. The first runs
/// the blocks, and all time their sums. Returns nothing on the other ranks.
std::optional<planner::Profile> measure_together(const Asked& asked, const ProfileFlags& flags) {
  // Default options suffice to connect the ranks: the profile depends on where they are, not on a
  // run.
  options::ParallelArguments parallel;
  parallel.device = "cpu";
  parallel.threads = asked.configured->training.parallel.threads;
  parallel.timeout = asked.configured->training.parallel.timeout;
  std::optional<planner::Profile> out;
  job::meet_ranks(parallel, "convoy profile", [&](const job::Job& met, const job::MetRanks& ranks) {
    const auto& here = met.environment;
    if (flags.ranks > 0 && flags.ranks != here.world_size) {
      fail<UsageError>("cli", "--ranks {}, but {} started {}; try without it", flags.ranks,
                       here.source, here.world_size);
    }
    warn_of_bound_cores(met);
    const auto sums = planner::time_sums(met, ranks);
    comm::ask_main(
        ranks.all, "profile",
        [&] {
          out = measure(asked, here.world_size, sums, met.threads);
          return Json();
        },
        comm::Lasts::Long);
  });
  return out;
}

int run_profile(const ProfileFlags& flags) {
  if (flags.output.empty()) {
    fail<UsageError>("cli", "the costs go into a file; try --output profile.json");
  }
  check_place("--output", flags.output, flags.config, "profile.json");
  const auto here = launch::detect_environment();
  const auto asked = ask_about(flags.config, {.tells = here.rank == 0});
  asked.configured->training.check_for_cpu("convoy plan --on h100-80 for GPUs, or leaving it out");
  const auto profile = here.launched()
                           ? measure_together(asked, flags)
                           : measure(asked, flags.ranks > 0 ? flags.ranks : machine::usable_cores(),
                                     std::nullopt, 0);
  if (!profile) return 0;
  write_file(flags.output, planner::to_json(*profile).dump(1) + "\n");
  print_blocks(*profile);
  tell(planner::spread_warnings(profile->spread));
  fmt::print("\nwrote {0}; plan with it: convoy plan {1} --profile {0}\n", flags.output,
             flags.config.empty() ? "..." : flags.config);
  return 0;
}

}  // namespace

void add_profile(CLI::App& app, RunCommand& run) {
  auto flags = std::make_shared<ProfileFlags>();
  auto* command =
      app.add_subcommand("profile", "Measure the costs of a model's blocks on this host");
  add_asked(*command, flags->config, flags->ranks,
            "ranks that compute at once [the processor's cores]");
  command->add_option("--output", flags->output, "JSON file of the costs")->check(not_empty());
  command->footer(
      "Takes the options of convoy train. Each block of the model runs forward and backward for "
      "some micro-batch sizes, on all ranks at once; optimizer updates and all-reduces are timed, "
      "too. convoy plan --profile and --pipeline_costs read the file. Under a launcher the ranks "
      "of "
      "all hosts take part, so that links between hosts are measured.\n"
      "Examples:\n  convoy profile run.toml --ranks 2 --output profile.json\n"
      "  convoy plan run.toml --profile profile.json\n"
      "  convoy launch --nnodes 2 --rdzv-endpoint host0:29400 -n 2 profile run.toml --output "
      "profile.json\n");
  command->callback([flags, &run] { run = [flags] { return run_profile(*flags); }; });
}

}  // namespace convoy::cli
