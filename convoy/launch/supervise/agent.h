#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/launch/supervise/failure.h"
#include "convoy/launch/supervise/interrupt_grace.h"
#include "convoy/machine/binding.h"

namespace convoy::launch {

/// Largest number of ranks that convoy starts on a host.
inline constexpr int kMostRanks = 4096;

/// Ranks to start on this host and how to look after it.
struct LaunchOptions {
  int num_ranks = 1;
  std::vector<std::string> command;  ///< program and arguments, the same for every rank
  /// Folder for each rank's output (rank-0.out, rank-0.err), besides being passed on; empty: the
  /// ranks write straight to this process's output.
  std::filesystem::path log_dir;
  double grace_seconds = 5;  ///< from SIGTERM to SIGKILL after a rank failed
  /// Seconds from a signal that stops the job to SIGKILL, in which ranks save; none:
  /// grace_of_scheduler().
  std::optional<double> interrupt_grace_seconds = {};
  int max_restarts = 0;  ///< of all ranks, after a failure
  int threads_per_rank =
      0;                ///< OMP_NUM_THREADS unless set; 0: one thread when there are many ranks
  int master_port = 0;  ///< port at which rank 0 listens; 0: a free one
  machine::Binding binding = machine::Binding::kNone;  ///< processor cores that each rank may use

  // `say` and `tee` are called in a thread of their own, one at a time, and must not throw.
  std::function<void(std::string_view)>
      say;  ///< gets the launcher's own words, the failure report too
  /// Gets the ranks' output line by line when there is a log_dir. While it does not return the
  /// ranks are looked after all the same; in the end the launcher waits for it.
  std::function<void(int rank, int local_rank, bool is_error, std::string_view line)> tee;
  std::function<void(const FailureReport&)> on_failure;
};

/// Starts the ranks as fresh processes with torchrun's environment variables and waits for them.
/// When one fails the others are stopped, and one report tells which failed first and why; with a
/// log_dir it is also written to failure.json there. SIGINT and SIGTERM are passed on; the second
/// one kills. No process of the ranks outlives this call, or this process.
/// Returns 0, the exit code of the rank that failed first (128 + signal), or 128 + the signal that
/// stopped the launcher. Throws UsageError for options that make no sense and for a program that
/// cannot be started.
int run_ranks(const LaunchOptions& options);

}  // namespace convoy::launch
