#include "convoy/launch/supervise/rank_processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fstream>

#include "convoy/base/error.h"
#include "convoy/launch/stop_signal.h"
#include "convoy/machine/limits.h"

namespace convoy::launch {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point after(Clock::time_point time, double seconds) {
  return time + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// A rank that lost its peers often ends before the one that is to blame has written its reason.
constexpr double kSettleSeconds = 1;
constexpr double kUnkillableSeconds = 2;
constexpr size_t kTailLines = 12;

/// Whether a signal or a debugger has stopped a process.
bool is_suspended(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(") ");  // the name may hold anything
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
  return text[name_end + 2] == 'T' || text[name_end + 2] == 't';
}

}  // namespace

RankProcesses::RankProcesses(const LaunchOptions& options, OutputQueue& output_queue, NodeInfo node,
                             fs::path error_dir, fs::path log_dir)
    : options_(options),
      output_queue_(output_queue),
      node_(std::move(node)),
      error_dir_(std::move(error_dir)),
      log_dir_(std::move(log_dir)),
      cleanup_(error_dir_.parent_path()),
      ranks_(static_cast<size_t>(options.num_ranks)) {
  const auto cores = machine::share_cores(options.binding, options.num_ranks,
                                          machine::numa_nodes(machine::own_cores()));
  try {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i].report.rank = node_.first_rank + static_cast<int>(i);
      ranks_[i].report.host = host_name();
      start_rank(ranks_[i], cores[i]);
    }
  } catch (...) {
    signal_all(SIGKILL);
    for (const Rank& rank : ranks_) {
      if (rank.alive) ::waitpid(rank.process.reaper, nullptr, 0);
    }
    throw;
  }
}

RankProcesses::~RankProcesses() {
  signal_all(SIGKILL);
}

void RankProcesses::start_rank(Rank& rank, const std::vector<int>& cores) {
  const std::string index = fmt::format("{}", rank.report.rank);
  Command command{.argv = options_.command,
                  .env = rank_variables(node_, options_, rank.report.rank),
                  .unset = {"CONVOY_TOKEN"},
                  .cores = cores};
  command.env["TORCHELASTIC_ERROR_FILE"] = file_of(rank, ".json").string();
  command.env["CONVOY_ERROR_FILE"] = file_of(rank, ".json").string();
  command.env["CONVOY_STATUS_FILE"] = file_of(rank, ".status").string();
  // Ranks get an empty standard input, since a process group in the background cannot read the
  // terminal. Rank 0 may read a file or a pipe.
  Descriptor nothing;
  if (rank.report.rank > node_.first_rank || ::isatty(0) == 1) {
    nothing = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    command.stdin_fd = nothing.get();
  }
  if (!log_dir_.empty()) {
    const auto open_log = [&](const char* suffix, bool is_error) {
      const auto on_line = [this, number = rank.report.rank, is_error](std::string_view line) {
        output_queue_.pass_on(number, number - node_.first_rank, is_error, line);
      };
      return std::make_unique<RankOutput>(log_dir_ / ("rank-" + index + suffix), on_line);
    };
    rank.out = open_log(".out", false);
    rank.err = open_log(".err", true);
    command.stdout_fd = rank.out->write_fd();
    command.stderr_fd = rank.err->write_fd();
    rank.report.log = log_dir_ / ("rank-" + index + ".err");
  }
  rank.process = spawn(command);
  rank.alive = true;
  rank.start = Clock::now();
  rank.report.pid = rank.process.pid;
  exits_.watch(rank.process.pid);
  if (rank.out) rank.out->close_write_end();
  if (rank.err) rank.err->close_write_end();
}

fs::path RankProcesses::file_of(const Rank& rank, const char* suffix) const {
  return error_dir_ / fmt::format("rank-{}{}", rank.report.rank, suffix);
}

/// Records each rank's operation for the report, before any rank is told to stop.
void RankProcesses::see_what_ranks_do() {
  for (Rank& rank : ranks_) {
    if (!rank.alive) continue;
    rank.report.activity = read_activity_file(file_of(rank, ".status")).value_or(Activity{});
    rank.report.suspended = is_suspended(rank.process.pid);
  }
}

bool RankProcesses::any_alive() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.alive; });
}

bool RankProcesses::tick() {
  if (!any_alive()) return false;
  pass_output();
  collect_ended();
  stop_after_failure();
  return any_alive() && !(phase_ == Phase::kKilling && Clock::now() >= deadline_);
}

void RankProcesses::pass_output() {
  std::vector<RankOutput*> outputs;
  if (is_stopping() ||
      !output_queue_.is_behind()) {  // who is to save and leave must not wait to print
    for (const Rank& rank : ranks_) {
      for (RankOutput* output : {rank.out.get(), rank.err.get()}) {
        if (output && output->read_fd() >= 0) outputs.push_back(output);
      }
    }
  }
  std::vector<pollfd> watched = {{exits_.fd(), POLLIN, 0}};
  for (const RankOutput* output : outputs) watched.push_back({output->read_fd(), POLLIN, 0});
  ::poll(watched.data(), watched.size(), 20);
  for (RankOutput* output : outputs) output->pump();
}

void RankProcesses::collect_ended() {
  for (const pid_t ended : exits_.take()) {
    const auto rank = std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& one) {
      return one.alive && one.process.pid == ended;
    });
    if (rank != ranks_.end()) note_end_time(*rank);
  }
  for (Rank& rank : ranks_) {
    if (!rank.alive) continue;
    int status = W_EXITCODE(1, 0);  // should nobody know
    rusage usage{};                 // the reaper's counts its program's
    if (::wait4(rank.process.reaper, &status, WNOHANG, &usage) == 0) continue;
    rank.report.peak_bytes = static_cast<int64_t>(usage.ru_maxrss) * 1024;
    end_rank(rank, status);
  }
}

/// Records the time at which a rank ended; no two are equal, however coarse the clock.
void RankProcesses::note_end_time(Rank& rank) {
  rank.report.end_time = last_end_time_ = std::max(wall_time(), last_end_time_ + 1e-6);
}

void RankProcesses::end_rank(Rank& rank, int status) {
  rank.alive = false;
  RankReport& report = rank.report;
  if (report.end_time == 0) note_end_time(rank);
  report.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  report.exit_code = report.signal != 0 ? 128 + report.signal : WEXITSTATUS(status);
  report.seconds = std::chrono::duration<double>(Clock::now() - rank.start).count();
  report.error = read_error_file(file_of(rank, ".json"));
  if (!is_stopping()) {
    report.activity = read_activity_file(file_of(rank, ".status")).value_or(Activity{});
  }
  if (report.error && !report.error->operation.empty()) {
    report.activity.operation = report.error->operation;
    report.activity.step = report.error->step;
  }
  const bool told = report.error && report.error->time > 0 && report.error->time <= stop_time_;
  const bool cut_short = is_stopping() && report.end_time > stop_time_;
  if (cut_short && told) {  // it was about to end by itself, and would have with this code
    const bool exited = report.signal == 0 && report.exit_code != 0;
    report.exit_code = report.error->exit_code > 0 ? report.error->exit_code
                       : exited                    ? report.exit_code
                                                   : 1;
    report.signal = 0;
  }
  const bool by_itself = told || !cut_short;
  if (!by_itself && phase_ == Phase::kKilling) {
    report.end = RankEnd::kKilled;
  } else if (report.exit_code == 0) {
    report.end = RankEnd::kSucceeded;
  } else {
    report.end = by_itself ? RankEnd::kFailed : RankEnd::kStopped;
  }
  report.early = report.end == RankEnd::kFailed;
  report.out_of_memory = report.early && report.signal == SIGKILL && memory_kills_before_ &&
                         machine::memory_kills() > memory_kills_before_;
}

void RankProcesses::interrupt(int signal) {
  if (is_stopping() && !hurries(signal, Clock::now() - stopping_since_)) return;
  if (is_stopping()) {
    signal_all(SIGKILL);
    enter(Phase::kKilling, kUnkillableSeconds);
  } else {
    see_what_ranks_do();
    const auto& asked = options_.interrupt_grace_seconds;
    enter(Phase::kStopping, asked.value_or(kInterruptGrace));
    signal_all(signal);
    if (!asked) deadline_ = after(stopping_since_, grace_of_scheduler());
  }
}

void RankProcesses::stop() {
  if (is_stopping()) return;
  see_what_ranks_do();
  enter(Phase::kStopping, options_.grace_seconds);
  for (const Rank& rank : ranks_) {
    if (rank.alive) tell_to_leave_now(rank.process.pid);
  }
  signal_all(SIGTERM);
  for (const Rank& rank : ranks_) {  // they would not hear it
    if (rank.alive && rank.report.suspended) ::kill(-rank.process.pid, SIGKILL);
  }
}

bool RankProcesses::has_cause() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return rank.report.end == RankEnd::kFailed &&
           !(rank.report.error && rank.report.error->kind == "CommunicationError");
  });
}

void RankProcesses::stop_after_failure() {
  if (phase_ == Phase::kRunning || phase_ == Phase::kSettling) {
    failed_ |= std::any_of(ranks_.begin(), ranks_.end(),
                           [](const Rank& rank) { return rank.report.end == RankEnd::kFailed; });
    if (!failed_) return;
    const bool cause = has_cause();
    if (phase_ == Phase::kRunning) enter(Phase::kSettling, cause ? 0 : kSettleSeconds);
    if (cause || Clock::now() >= deadline_) stop();
  } else if (phase_ == Phase::kStopping && Clock::now() >= deadline_) {
    signal_all(SIGKILL);
    enter(Phase::kKilling, kUnkillableSeconds);
  }
}

void RankProcesses::enter(Phase phase, double seconds) {
  phase_ = phase;
  if (phase == Phase::kStopping) {
    stop_time_ = wall_time();
    stopping_since_ = Clock::now();
  }
  deadline_ = after(Clock::now(), seconds);
}

void RankProcesses::signal_all(int signal) {
  for (const Rank& rank : ranks_) {
    if (rank.alive) ::kill(-rank.process.pid, signal);
  }
}

std::vector<RankReport> RankProcesses::reports() {
  std::vector<RankReport> out;
  for (Rank& rank : ranks_) {
    if (rank.alive) end_rank(rank, SIGKILL);  // stuck in the kernel, which will end it
    if (rank.out) rank.out->finish();
    if (rank.err) rank.err->finish();
    RankReport& report = rank.report;
    if (!report.log.empty() && report.end != RankEnd::kSucceeded) {
      report.log_tail = last_lines(report.log, kTailLines);
      if (report.log_tail.empty()) {
        report.log.replace_extension(".out");
        report.log_tail = last_lines(report.log, kTailLines);
      }
    }
    out.push_back(std::move(report));
  }
  return out;
}

}  // namespace convoy::launch
