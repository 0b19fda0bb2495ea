#include <fmt/format.h>

#include <memory>

#include "cli/asked.h"
#include "cli/commands.h"
#include "cli/program.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/machine/cores.h"
#include "convoy/plan/decision.h"
#include "convoy/report/progress_line.h"
#include "convoy/report/table.h"
#include "convoy/train/planning/profile_file.h"

namespace convoy::cli {

namespace {

struct ProfileFlags {
  std::string config, output;
  int ranks = 0;
};

/// Of the largest micro-batch on one tensor rank the blocks that are not as the one before.
void print_blocks(const train::Profile& profile) {
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
    table.row({profile.names[b], plan::step_text(cost.forward_seconds),
               plan::step_text(cost.backward_seconds), plan::step_text(cost.weight_seconds),
               human_bytes(cost.kept_bytes)});
  }
  fmt::print("{}, {}, {} x {}; a micro-batch of {}\n\n{}", profile.of.model, profile.of.machine,
             plural(profile.of.ranks, "rank"), plural(profile.of.threads, "thread"),
             plural(chosen->first.rows, "row"), table.to_text());
}

int run_profile(const ProfileFlags& flags) {
  if (flags.output.empty()) {
    fail<UsageError>("cli", "the costs go into a file; try --output profile.json");
  }
  const auto [configured, run] = ask_about(flags.config);
  report::ProgressLine progress("profiling");
  const auto profile = train::measure_profile(
      run.factory, configured->training, *run.train_data,
      flags.ranks > 0 ? flags.ranks : machine::usable_cores(), 0, progress.function());
  progress.wipe();
  write_file(flags.output, train::to_json(profile).dump(1) + "\n");
  print_blocks(profile);
  tell(train::spread_warnings(profile.spread));
  fmt::print("\nwrote {0}; plan with it: convoy plan {1} --ranks {2} --profile {0}\n", flags.output,
             flags.config.empty() ? "..." : flags.config, profile.of.ranks);
  return 0;
}

}  // namespace

void add_profile(CLI::App& app, Run& run) {
  auto flags = std::make_shared<ProfileFlags>();
  auto* command =
      app.add_subcommand("profile", "Measure the costs of a model's blocks on this host");
  add_asked(*command, flags->config, flags->ranks,
            "ranks that compute at once [the processor's cores]");
  command->add_option("--output", flags->output, "JSON file of the costs");
  command->footer(
      "Takes the options of convoy train. Each block of the model runs forward and backward for "
      "some micro-batch sizes, on all ranks at once; optimizer updates and all-reduces are timed, "
      "too. convoy plan --profile and --pipeline_costs read the file.\n"
      "Example:\n  convoy profile run.toml --ranks 2 --output profile.json\n"
      "  convoy plan run.toml --ranks 2 --profile profile.json\n");
  command->callback([flags, &run] { run = [flags] { return run_profile(*flags); }; });
}

}  // namespace convoy::cli
