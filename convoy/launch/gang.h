#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "convoy/launch/agent.h"
#include "convoy/launch/guardian.h"
#include "convoy/launch/rank_output.h"
#include "convoy/launch/signals.h"

namespace convoy::launch {

/// All ranks of one attempt, from their start to the end of the last.
class Gang {
 public:
  struct Result {
    int interrupted_by = 0;  ///< the signal that stopped the launcher, or 0
    std::optional<FailureReport> failure;
  };

  /// Starts the ranks; they leave their reasons in `error_dir` and their output in `log_dir` (""
  /// for none).
  Gang(const LaunchOptions& options, SignalCatcher& signals, std::filesystem::path error_dir,
       std::filesystem::path log_dir, int attempt);
  ~Gang();  ///< kills what still runs
  Gang(const Gang&) = delete;
  Gang& operator=(const Gang&) = delete;

  /// Waits until all ranks have ended, stopping them when one fails.
  Result wait();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { kRunning, kSettling, kStopping, kKilling };

  struct Rank {
    pid_t pid = -1;
    bool alive = false;
    Clock::time_point start;
    RankReport report;
    std::unique_ptr<RankOutput> out;
    std::unique_ptr<RankOutput> err;
  };

  void start_rank(Rank& rank, int port, int attempt);
  bool any_alive() const;
  void pass_output();
  void collect_ended();
  void end_rank(Rank& rank, int status);
  void see_what_ranks_do();
  std::filesystem::path file_of(const Rank& rank, const char* suffix) const;
  void obey_signals();
  void stop_after_failure();
  void enter(Phase phase, double seconds);
  void signal_all(int signal);
  FailureReport report();

  const LaunchOptions& options_;
  SignalCatcher& signals_;
  std::filesystem::path error_dir_;
  std::filesystem::path log_dir_;
  Guardian guardian_;
  std::vector<Rank> ranks_;
  Phase phase_ = Phase::kRunning;
  Clock::time_point deadline_;
  bool failed_ = false;
  int interrupted_by_ = 0;
  double stop_time_ = 0;
};

}  // namespace convoy::launch
