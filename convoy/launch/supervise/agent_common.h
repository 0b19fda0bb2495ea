#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string_view>

#include "convoy/launch/supervise/agent.h"
#include "convoy/launch/supervise/output_queue.h"

// Common parts of the agents of one host and of several hosts.
namespace convoy::launch {

/// Throws UsageError when options make no sense.
void check(const LaunchOptions& options);
/// Checks what has nothing to do with ranks of this host: restarts, seconds and ports.
void check_numbers(const LaunchOptions& options);

/// A folder that only the owner can enter and that goes when the launcher ends.
class PrivateFolder {
 public:
  explicit PrivateFolder(std::string_view prefix);
  ~PrivateFolder();
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  /// A new folder in it, for one round.
  std::filesystem::path make(int round) const;

 private:
  std::filesystem::path path_;
};

/// Makes the folder for the logs of a round; empty without a log_dir. Throws FileError.
std::filesystem::path log_folder(const LaunchOptions& options, int round);

/// Removes what an earlier job left in log_dir: of failures, of restarts, and of ranks that this
/// one, of `world_size`, does not have. Several hosts may share the folder: what is no older than
/// `job_start` (seconds since 1970), when the first ranks were started, stays.
void remove_old_logs(const LaunchOptions& options, int world_size, double job_start);

/// Whether a rank was ended because nobody reads what this process prints any more, as in
/// `convoy launch ... | head`: no failure of which anybody wants to hear.
bool reader_left(const FailureReport& report);

/// Says why the job failed, writes failure.json into `logs` unless that is empty, and calls
/// on_failure.
void tell_failure(const LaunchOptions& options, OutputQueue& output_queue,
                  const FailureReport& report, const std::filesystem::path& logs);

}  // namespace convoy::launch
