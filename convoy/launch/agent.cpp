#include "convoy/launch/agent.h"

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/launch/gang.h"
#include "convoy/launch/process.h"

namespace convoy::launch {
namespace {

constexpr int kMostRanks = 4096;

void check(const LaunchOptions& options) {
  if (options.num_ranks < 1 || options.num_ranks > kMostRanks) {
    fail<UsageError>("launch", "cannot start {} ranks; expected a number from 1 to {}",
                     options.num_ranks, kMostRanks);
  }
  if (options.command.empty()) {
    fail<UsageError>("launch", "no command to start; try convoy launch -n 2 train run.toml");
  }
  if (options.max_restarts < 0 || !(options.grace_seconds >= 0) ||
      !(options.interrupt_grace_seconds >= 0) || options.threads_per_rank < 0) {
    fail<UsageError>("launch",
                     "restarts, grace and threads are {}, {} s and {}; expected no negative number",
                     options.max_restarts, options.grace_seconds, options.threads_per_rank);
  }
  if (options.master_port < 0 || options.master_port > 65535) {
    fail<UsageError>("launch", "the master port is {}; expected a number from 1 to 65535, or 0",
                     options.master_port);
  }
}

std::filesystem::path make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    fail<FileError>("launch", "cannot make the folder {}: {}; try another --log-dir", path.string(),
                    error.message());
  }
  return path;
}

/// A folder that only the owner can read and that goes when the launcher ends.
struct PrivateFolder {
  std::filesystem::path path = unique_folder("convoy-launch");
  ~PrivateFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

}  // namespace

int run_ranks(const LaunchOptions& options) {
  check(options);
  const auto say = [&](std::string_view text) {
    if (options.say) options.say(text);
  };
  const PrivateFolder errors;
  SignalCatcher signals;
  for (int attempt = 0;; ++attempt) {
    std::filesystem::path logs = options.log_dir;
    if (!logs.empty() && attempt > 0) logs /= fmt::format("restart-{}", attempt);
    if (!logs.empty()) make_folder(logs);
    Gang gang(options, signals, make_folder(errors.path / fmt::format("{}", attempt)), logs,
              attempt);
    const Gang::Result result = gang.wait();

    if (result.failure) {
      say(result.failure->to_text());
      if (!logs.empty())
        write_file(logs / "failure.json", result.failure->to_json().dump(2) + "\n");
      if (options.on_failure) options.on_failure(*result.failure);
    }
    if (result.interrupted_by != 0) {
      say(fmt::format("[launch] stopped by {}; all ranks have ended\n",
                      signal_name(result.interrupted_by)));
      return 128 + result.interrupted_by;
    }
    if (!result.failure) return 0;
    if (attempt >= options.max_restarts || !result.failure->worth_a_restart()) {
      return result.failure->exit_code();
    }
    say(fmt::format("[launch] starting all ranks again ({} of {} restarts)\n", attempt + 1,
                    options.max_restarts));
  }
}

}  // namespace convoy::launch
