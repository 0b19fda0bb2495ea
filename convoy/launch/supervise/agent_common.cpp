#include "convoy/launch/supervise/agent_common.h"

#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <optional>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"

namespace convoy::launch {
namespace fs = std::filesystem;

namespace {

constexpr double kLongestGrace = 1e7;  // seconds; a clock can add it
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

/// Rank of a log by its name: "rank-3.out".
std::optional<int64_t> rank_of_log(const std::string& name) {
  constexpr std::string_view kPrefix = "rank-";
  const auto dot = name.find('.');
  int64_t rank = 0;
  if (!name.starts_with(kPrefix) || (!name.ends_with(".out") && !name.ends_with(".err")) ||
      !parse_number(std::string_view(name).substr(kPrefix.size(), dot - kPrefix.size()), rank)) {
    return std::nullopt;
  }
  return rank;
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
  check_numbers(options);
}

void check_numbers(const LaunchOptions& options) {
  if (options.max_restarts < 0 || options.threads_per_rank < 0) {
    fail<UsageError>("launch", "restarts and threads are {} and {}; expected no negative number",
                     options.max_restarts, options.threads_per_rank);
  }
  const double after_signal = options.interrupt_grace_seconds.value_or(kInterruptGrace);
  for (const double seconds : {options.grace_seconds, after_signal}) {
    if (seconds >= 0 && seconds <= kLongestGrace) continue;
    fail<UsageError>("launch",
                     "the grace is {:g} s after a failure, {:g} s after a signal; expected from 0 "
                     "to {:g} s",
                     options.grace_seconds, after_signal, kLongestGrace);
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

void remove_old_logs(const LaunchOptions& options, int world_size, double job_start) {
  if (options.log_dir.empty()) return;
  std::error_code ignored;
  std::vector<fs::path> old;
  const auto note = [&](const fs::path& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return;
    const auto& time = status.st_mtim;
    const double changed = static_cast<double>(time.tv_sec) + 1e-9 * time.tv_nsec;
    if (changed < job_start) old.push_back(path);
  };
  for (const auto& entry : fs::directory_iterator(options.log_dir, ignored)) {
    const auto name = entry.path().filename().string();
    if (name == kFailure || rank_of_log(name).value_or(0) >= world_size) note(entry.path());
    if (!name.starts_with("restart-") || !entry.is_directory(ignored)) continue;
    for (const auto& inner : fs::directory_iterator(entry.path(), ignored)) {
      const auto log = inner.path().filename().string();
      if (log == kFailure || rank_of_log(log)) note(inner.path());
    }
    note(entry.path());
  }
  for (const auto& path : old) fs::remove(path, ignored);  // no folder where others keep files
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
