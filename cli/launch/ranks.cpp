#include "cli/launch/ranks.h"

#include <cstdio>

#include "cli/program.h"
#include "cli/typed.h"
#include "convoy/base/error.h"
#include "convoy/launch/environment.h"
#include "convoy/launch/process.h"
#include "convoy/launch/supervise/agent.h"
#include "convoy/report/progress_output.h"

namespace convoy::cli {

namespace {

/// Typed arguments, less those of the launcher: the ranks must not start ranks.
std::vector<std::string> typed_for_ranks() {
  std::vector<std::string> out;
  const auto& typed = typed_args();
  for (size_t i = 0; i < typed.size(); ++i) {
    const auto name = typed[i].substr(0, typed[i].find('='));
    const bool is_launchers =
        name == "--nproc" || name == "--interrupt-grace" || name == "--interrupt_grace";
    if (!is_launchers) {
      out.push_back(typed[i]);
    } else if (name == typed[i]) {
      ++i;
    }
  }
  return out;
}

}  // namespace

std::optional<int> launch_ranks(std::optional<int64_t> nproc,
                                std::optional<double> interrupt_grace) {
  if (!nproc) return std::nullopt;
  if (*nproc < 1 || *nproc > launch::kMostRanks) {
    fail<UsageError>("cli", "--nproc = {}; expected 1 to {}", *nproc, launch::kMostRanks);
  }
  const auto environment = launch::detect_environment();
  if (environment.launched() && (*nproc > 1 || environment.world_size > 1)) {
    const bool by_hand = environment.source == "environment";
    fail<UsageError>("cli",
                     "--nproc = {} starts ranks, but {} this process rank {} of {} already; try "
                     "without --nproc{}",
                     *nproc,
                     by_hand ? "the environment variables RANK and WORLD_SIZE make"
                             : environment.source + " made",
                     environment.rank, environment.world_size,
                     by_hand ? ", or `unset RANK WORLD_SIZE`" : "");
  }
  if (*nproc == 1) return std::nullopt;
  return launch_again(static_cast<int>(*nproc), {}, interrupt_grace);
}

int launch_again(int num_ranks, const std::vector<std::string>& more,
                 std::optional<double> interrupt_grace) {
  launch::LaunchOptions options;
  options.interrupt_grace_seconds = interrupt_grace;
  options.num_ranks = num_ranks;
  options.command = launch::this_program();
  const auto typed = typed_for_ranks();
  options.command.insert(options.command.end(), typed.begin(), typed.end());
  options.command.insert(options.command.end(), more.begin(), more.end());
  options.say = [](std::string_view text) { report::print_progress(text, stderr); };
  return launch::run_ranks(options);
}

}  // namespace convoy::cli
