#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/launch/node_info.h"
#include "convoy/launch/supervise/agent.h"
#include "convoy/launch/supervise/cleanup_process.h"
#include "convoy/launch/supervise/exits.h"
#include "convoy/launch/supervise/output_queue.h"
#include "convoy/launch/supervise/rank_output.h"
#include "convoy/machine/memory_limit.h"

namespace convoy::launch {

/// Environment variables of a rank: torchrun's, and some of our own.
std::map<std::string, std::string> rank_variables(const NodeInfo& node,
                                                  const LaunchOptions& options, int rank);

/// All ranks of one attempt, from their start to the end of the last.
class RankProcesses {
 public:
  /// Starts the ranks; they leave their reasons in `error_dir`, which lies in the launcher's
  /// private folder, and their output in `log_dir` ("" for none).
  RankProcesses(const LaunchOptions& options, OutputQueue& output_queue, NodeInfo node,
                std::filesystem::path error_dir, std::filesystem::path log_dir);
  ~RankProcesses();  ///< kills what still runs
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// Passes output on, sees who has ended, and stops the others when one failed; takes some
  /// milliseconds. False when all have ended.
  bool tick();

  /// Asks the ranks to save and leave; they are killed after options.interrupt_grace_seconds. The
  /// second call kills them at once.
  void interrupt(int signal);
  /// Stops the ranks as if one of them had failed.
  void stop();

  bool failed() const { return failed_; }
  /// Whether one of the ranks that failed did not just lose its peers.
  bool has_cause() const;
  /// Ends of the ranks. Call it once, after tick() returned false.
  std::vector<RankReport> reports();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { kRunning, kSettling, kStopping, kKilling };

  struct Rank {
    Process process;
    bool alive = false;
    Clock::time_point start;
    RankReport report;
    std::unique_ptr<RankOutput> out;
    std::unique_ptr<RankOutput> err;
  };

  void start_rank(Rank& rank, const std::vector<int>& cores);
  bool any_alive() const;
  void pass_output();
  void collect_ended();
  void note_end_time(Rank& rank);
  void end_rank(Rank& rank, int status);
  void see_what_ranks_do();
  std::filesystem::path file_of(const Rank& rank, const char* suffix) const;
  void stop_after_failure();
  void enter(Phase phase, double seconds);
  bool is_stopping() const { return phase_ == Phase::kStopping || phase_ == Phase::kKilling; }
  void signal_all(int signal);

  const LaunchOptions& options_;
  OutputQueue& output_queue_;
  const NodeInfo node_;
  const std::optional<int64_t> memory_kills_before_ = machine::memory_kills();
  std::filesystem::path error_dir_;
  std::filesystem::path log_dir_;
  CleanupProcess cleanup_;
  Exits exits_;
  std::vector<Rank> ranks_;
  Phase phase_ = Phase::kRunning;
  Clock::time_point deadline_, stopping_since_;
  bool failed_ = false;
  double stop_time_ = 0;
  double last_end_time_ = 0;
};

}  // namespace convoy::launch
