#include "convoy/launch/gang.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/launch/process.h"

namespace convoy::launch {
namespace fs = std::filesystem;
namespace {

// A rank that lost its peers often ends before the one that is to blame has written its reason.
constexpr double kSettleSeconds = 1;
constexpr double kUnkillableSeconds = 2;
constexpr size_t kTailLines = 12;

int free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (socket.get() < 0 || ::bind(socket.get(), generic, size) != 0 ||
      ::getsockname(socket.get(), generic, &size) != 0) {
    fail<CommunicationError>("launch", "no free port on 127.0.0.1: {}; try --master-port",
                             std::strerror(errno));
  }
  return ntohs(address.sin_port);
}

void set_unless_given(std::map<std::string, std::string>& env, const char* name,
                      const std::string& value) {
  if (std::getenv(name) == nullptr) env[name] = value;
}

/// Whether a process stands still because a signal or a debugger stopped it.
bool is_suspended(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(") ");  // the name may hold anything
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return false;
  return text[name_end + 2] == 'T' || text[name_end + 2] == 't';
}

}  // namespace

Gang::Gang(const LaunchOptions& options, SignalCatcher& signals, std::filesystem::path error_dir,
           std::filesystem::path log_dir, int attempt)
    : options_(options),
      signals_(signals),
      error_dir_(std::move(error_dir)),
      log_dir_(std::move(log_dir)),
      ranks_(static_cast<size_t>(options.num_ranks)) {
  const int port = options.master_port > 0 ? options.master_port : free_port();
  try {
    for (size_t i = 0; i < ranks_.size(); ++i) {
      ranks_[i].report.rank = static_cast<int>(i);
      start_rank(ranks_[i], port, attempt);
    }
  } catch (...) {
    signal_all(SIGKILL);
    for (const Rank& rank : ranks_) {
      if (rank.alive) ::waitpid(rank.pid, nullptr, 0);
    }
    throw;
  }
}

Gang::~Gang() {
  for (const Rank& rank : ranks_) {
    if (rank.alive) ::kill(-rank.pid, SIGKILL);
  }
}

void Gang::start_rank(Rank& rank, int port, int attempt) {
  const std::string index = fmt::format("{}", rank.report.rank);
  const std::string world = fmt::format("{}", options_.num_ranks);
  const std::string error_file = file_of(rank, ".json").string();
  Command command{.argv = options_.command};
  command.env = {
      {"RANK", index},
      {"LOCAL_RANK", index},
      {"GROUP_RANK", "0"},
      {"ROLE_RANK", index},
      {"ROLE_NAME", "default"},
      {"WORLD_SIZE", world},
      {"LOCAL_WORLD_SIZE", world},
      {"GROUP_WORLD_SIZE", "1"},
      {"ROLE_WORLD_SIZE", world},
      {"MASTER_ADDR", "127.0.0.1"},
      {"MASTER_PORT", fmt::format("{}", port)},
      {"TORCHELASTIC_RESTART_COUNT", fmt::format("{}", attempt)},
      {"TORCHELASTIC_MAX_RESTARTS", fmt::format("{}", options_.max_restarts)},
      {"TORCHELASTIC_RUN_ID", fmt::format("convoy-{}", ::getpid())},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"TORCHELASTIC_ERROR_FILE", error_file},
      {"CONVOY_ERROR_FILE", error_file},
      {"CONVOY_STATUS_FILE", file_of(rank, ".status").string()},
      {"CONVOY_LAUNCHER", "convoy"},
  };
  // All ranks are on this host: nothing needs to be reachable from elsewhere.
  set_unless_given(command.env, "GLOO_SOCKET_IFNAME", "lo");
  set_unless_given(command.env, "NCCL_SOCKET_IFNAME", "lo");
  if (options_.threads_per_rank > 0 || options_.num_ranks > 1) {
    set_unless_given(command.env, "OMP_NUM_THREADS",
                     fmt::format("{}", std::max(1, options_.threads_per_rank)));
  }
  // In groups of their own the ranks cannot read the terminal; a file or a pipe rank 0 may read.
  Descriptor nothing;
  if (rank.report.rank > 0 || ::isatty(0) == 1) {
    nothing = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    command.stdin_fd = nothing.get();
  }
  if (!log_dir_.empty()) {
    const auto open_log = [&](const char* suffix, bool is_error) {
      RankOutput::OnLine on_line;
      if (options_.tee) {
        on_line = [this, number = rank.report.rank, is_error](std::string_view line) {
          options_.tee(number, is_error, line);
        };
      }
      return std::make_unique<RankOutput>(log_dir_ / ("rank-" + index + suffix), on_line);
    };
    rank.out = open_log(".out", false);
    rank.err = open_log(".err", true);
    command.stdout_fd = rank.out->write_fd();
    command.stderr_fd = rank.err->write_fd();
    rank.report.log = log_dir_ / ("rank-" + index + ".err");
  }
  rank.pid = spawn(command);
  rank.alive = true;
  rank.start = Clock::now();
  rank.report.pid = rank.pid;
  guardian_.watch(rank.pid);
  if (rank.out) rank.out->close_write_end();
  if (rank.err) rank.err->close_write_end();
}

fs::path Gang::file_of(const Rank& rank, const char* suffix) const {
  return error_dir_ / fmt::format("rank-{}{}", rank.report.rank, suffix);
}

/// Notes it for the report, before anybody is told to stop.
void Gang::see_what_ranks_do() {
  for (Rank& rank : ranks_) {
    if (!rank.alive) continue;
    rank.report.activity = read_activity_file(file_of(rank, ".status")).value_or(Activity{});
    rank.report.suspended = is_suspended(rank.pid);
  }
}

bool Gang::any_alive() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.alive; });
}

Gang::Result Gang::wait() {
  while (any_alive()) {
    pass_output();
    collect_ended();
    obey_signals();
    stop_after_failure();
    if (phase_ == Phase::kKilling && Clock::now() >= deadline_) break;
  }
  for (Rank& rank : ranks_) {
    if (rank.alive) end_rank(rank, SIGKILL);  // stuck in the kernel, which will end it
    if (rank.out) rank.out->finish();
    if (rank.err) rank.err->finish();
  }
  Result result{.interrupted_by = interrupted_by_};
  if (failed_) result.failure = report();
  return result;
}

void Gang::pass_output() {
  std::vector<pollfd> streams;
  for (const Rank& rank : ranks_) {
    for (const RankOutput* output : {rank.out.get(), rank.err.get()}) {
      if (output && output->read_fd() >= 0) streams.push_back({output->read_fd(), POLLIN, 0});
    }
  }
  ::poll(streams.data(), streams.size(), 20);
  for (Rank& rank : ranks_) {
    for (RankOutput* output : {rank.out.get(), rank.err.get()}) {
      if (output) output->pump();
    }
  }
}

void Gang::collect_ended() {
  for (Rank& rank : ranks_) {
    siginfo_t info{};
    if (!rank.alive) continue;
    const int got =
        ::waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG | WNOWAIT);
    if (got == 0 && info.si_pid == 0) continue;
    // What it started goes with it, as long as its number still names the group.
    ::kill(-rank.pid, SIGKILL);
    int status = 0;
    ::waitpid(rank.pid, &status, 0);
    end_rank(rank, status);
  }
}

void Gang::end_rank(Rank& rank, int status) {
  guardian_.release(rank.pid);
  rank.alive = false;
  RankReport& report = rank.report;
  report.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  report.exit_code = report.signal != 0 ? 128 + report.signal : WEXITSTATUS(status);
  report.seconds = std::chrono::duration<double>(Clock::now() - rank.start).count();
  report.end_time = wall_time();
  report.error = read_error_file(file_of(rank, ".json"));
  const bool asked = phase_ == Phase::kStopping || phase_ == Phase::kKilling;
  if (!asked) report.activity = read_activity_file(file_of(rank, ".status")).value_or(Activity{});
  if (report.error && !report.error->operation.empty()) {
    report.activity.operation = report.error->operation;
    report.activity.step = report.error->step;
  }
  if (phase_ == Phase::kKilling) {
    report.end = RankEnd::kKilled;
  } else if (report.exit_code == 0) {
    report.end = RankEnd::kSucceeded;
  } else {
    report.end = asked ? RankEnd::kStopped : RankEnd::kFailed;
  }
  report.early = report.end == RankEnd::kFailed ||
                 (report.error && report.error->time > 0 && report.error->time <= stop_time_);
}

void Gang::obey_signals() {
  while (const auto signal = signals_.next()) {
    if (phase_ == Phase::kStopping || phase_ == Phase::kKilling) {
      signal_all(SIGKILL);
      enter(Phase::kKilling, kUnkillableSeconds);
    } else {
      see_what_ranks_do();
      enter(Phase::kStopping, options_.interrupt_grace_seconds);
      signal_all(*signal);
    }
    if (interrupted_by_ == 0) interrupted_by_ = *signal;
  }
}

void Gang::stop_after_failure() {
  if (phase_ == Phase::kRunning || phase_ == Phase::kSettling) {
    bool has_cause = false;
    for (const Rank& rank : ranks_) {
      if (rank.report.end != RankEnd::kFailed) continue;
      failed_ = true;
      has_cause |= !(rank.report.error && rank.report.error->kind == "CommunicationError");
    }
    if (!failed_) return;
    if (phase_ == Phase::kRunning) enter(Phase::kSettling, has_cause ? 0 : kSettleSeconds);
    if (!has_cause && Clock::now() < deadline_) return;
    see_what_ranks_do();
    enter(Phase::kStopping, options_.grace_seconds);
    signal_all(SIGTERM);
  } else if (phase_ == Phase::kStopping && Clock::now() >= deadline_) {
    signal_all(SIGKILL);
    enter(Phase::kKilling, kUnkillableSeconds);
  }
}

void Gang::enter(Phase phase, double seconds) {
  phase_ = phase;
  if (phase == Phase::kStopping) stop_time_ = wall_time();
  deadline_ = Clock::now() +
              std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

void Gang::signal_all(int signal) {
  for (const Rank& rank : ranks_) {
    if (rank.alive) ::kill(-rank.pid, signal);
  }
}

FailureReport Gang::report() {
  FailureReport out;
  out.command = join(options_.command, " ");
  out.host = host_name();
  for (Rank& rank : ranks_) out.ranks.push_back(std::move(rank.report));
  out.first = find_culprit(out.ranks);
  RankReport& culprit = out.ranks[out.first];
  if (!culprit.log.empty()) {
    culprit.log_tail = last_lines(culprit.log, kTailLines);
    if (culprit.log_tail.empty()) {
      culprit.log.replace_extension(".out");
      culprit.log_tail = last_lines(culprit.log, kTailLines);
    }
  }
  return out;
}

}  // namespace convoy::launch
