#include "cli/ranks.h"

#include <cstdio>

#include "cli/program.h"
#include "convoy/base/error.h"
#include "convoy/launch/agent.h"
#include "convoy/launch/environment.h"
#include "convoy/launch/process.h"

namespace convoy::cli {

std::optional<int> launch_ranks(int64_t nproc) {
  if (nproc < 1) fail<UsageError>("cli", "--nproc = {}; expected at least 1", nproc);
  if (nproc == 1 || launch::detect_environment().launched()) return std::nullopt;
  return launch_again(static_cast<int>(nproc));
}

int launch_again(int num_ranks, const std::vector<std::string>& more) {
  launch::LaunchOptions options;
  options.num_ranks = num_ranks;
  options.command = launch::this_program();
  const auto& typed = typed_args();
  options.command.insert(options.command.end(), typed.begin(), typed.end());
  options.command.insert(options.command.end(), more.begin(), more.end());
  options.say = [](std::string_view text) { fmt::print(stderr, "{}\n", text); };
  return launch::run_ranks(options);
}

}  // namespace convoy::cli
