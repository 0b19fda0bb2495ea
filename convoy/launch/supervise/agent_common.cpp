#include "convoy/launch/supervise/agent_common.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"

namespace convoy::launch {
namespace fs = std::filesystem;

namespace {

constexpr int kMostRanks = 4096;
constexpr const char* kFailure = "failure.json";

fs::path make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) {
    fail<FileError>("launch", "cannot make the folder {}: {}; try another --log-dir", path.string(),
                    error.message());
  }
  return path;
}

fs::path restart_folder(const LaunchOptions& options, int round) {
  return options.log_dir / fmt::format("restart-{}", round);
}

}  // namespace

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

PrivateFolder::PrivateFolder(std::string_view prefix) : path_(unique_folder(prefix)) {}

PrivateFolder::~PrivateFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path PrivateFolder::make(int round) const {
  return make_folder(path_ / fmt::format("{}", round));
}

fs::path log_folder(const LaunchOptions& options, int round) {
  if (options.log_dir.empty()) return {};
  return make_folder(round == 0 ? options.log_dir : restart_folder(options, round));
}

void remove_old_logs(const LaunchOptions& options) {
  if (options.log_dir.empty()) return;
  std::error_code ignored;
  fs::remove(options.log_dir / kFailure, ignored);
  std::vector<fs::path> own;
  for (const auto& restart : fs::directory_iterator(options.log_dir, ignored)) {
    if (!restart.path().filename().string().starts_with("restart-")) continue;
    for (const auto& entry : fs::directory_iterator(restart.path(), ignored)) {
      const auto name = entry.path().filename().string();
      if (name == kFailure || name.starts_with("rank-")) own.push_back(entry.path());
    }
    if (restart.is_directory(ignored)) own.push_back(restart.path());
  }
  for (const auto& path : own) fs::remove(path, ignored);  // no folder where others keep files
}

bool reader_left(const FailureReport& report) {
  if (report.culprit().signal != SIGPIPE) return false;
  std::array<pollfd, 2> outputs{pollfd{1, 0, 0}, pollfd{2, 0, 0}};
  ::poll(outputs.data(), outputs.size(), 0);
  return std::any_of(outputs.begin(), outputs.end(), [](const pollfd& output) {
    return (output.revents & (POLLERR | POLLHUP)) != 0;
  });
}

void tell_failure(const LaunchOptions& options, OutputQueue& output_queue,
                  const FailureReport& report, const fs::path& logs) {
  if (reader_left(report)) return;
  output_queue.say(printable_lines(report.to_text()));
  if (!logs.empty()) write_file(logs / kFailure, json_text(report.to_json()));
  if (options.on_failure) options.on_failure(report);
}

}  // namespace convoy::launch
