#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convoy/base/activity.h"
#include "convoy/base/json.h"
#include "convoy/launch/error_file.h"

namespace convoy::launch {

enum class RankEnd {
  kSucceeded,
  kFailed,   ///< by itself
  kStopped,  ///< because another rank failed
  kKilled,   ///< because another rank failed, but it did not stop when asked
};

/// End of one rank.
struct RankReport {
  int rank = 0;
  std::string host;
  int64_t pid = 0;
  RankEnd end = RankEnd::kSucceeded;
  int exit_code = 0;               ///< 128 + signal when a signal ended it
  int signal = 0;                  ///< 0 when it exited
  double seconds = 0;              ///< duration of its run
  double end_time = 0;             ///< seconds since 1970
  std::optional<RankError> error;  ///< its own report
  Activity activity;               ///< its activity when it failed or was told to stop
  int64_t peak_bytes = 0;          ///< the most memory it held
  bool out_of_memory = false;      ///< SIGKILL, and the kernel killed for want of memory meanwhile
  bool suspended = false;          ///< whether it was stopped then: SIGSTOP, Ctrl-Z, a debugger
  bool early = false;  ///< whether it failed, or gave its reason, before ranks were told to stop
  std::filesystem::path log;  ///< its error output, or empty
  std::vector<std::string> log_tail;

  /// "NumericError: the loss is nan ...", "was ended by SIGKILL", "ended with exit code 3",
  /// "was stuck: the others waited for it in vain".
  std::string reason() const;
  /// "`reduce bucket 3` of step 17", "step 17", or "".
  std::string place() const;
};

Json to_json(const RankReport& report);
/// The other way round, for reports of other hosts. Throws Json::exception when something is
/// missing or has the wrong type.
RankReport rank_report_from_json(const Json& json);

/// The index of the rank that failed first. A rank that only lost its peers (CommunicationError)
/// is to blame only when no other has a reason of its own and it missed none that was stuck.
size_t find_culprit(const std::vector<RankReport>& ranks);

/// Reason why a job failed: all its ranks and the one that is to blame.
struct FailureReport {
  FailureReport(std::string command, std::vector<RankReport> ranks)
      : command(std::move(command)), ranks(std::move(ranks)), first(find_culprit(this->ranks)) {}

  std::string command;
  std::vector<RankReport> ranks;
  size_t first = 0;  ///< index into ranks

  const RankReport& culprit() const { return ranks.at(first); }
  int exit_code() const;
  /// Whether another start may end otherwise: not after a wrong option or a missing program, and
  /// not when somebody stopped a rank.
  bool worth_a_restart() const;
  std::string to_text() const;
  Json to_json() const;
};

}  // namespace convoy::launch
