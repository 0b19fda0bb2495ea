#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/base/host_name.h"
#include "convoy/launch/environment.h"

namespace convoy::launch {

/// Reason why a rank stopped, in its own words.
struct RankError {
  int rank = 0;
  std::string host;
  int64_t pid = 0;
  double time = 0;           ///< seconds since 1970
  std::string kind;          ///< "CommunicationError", "NumericError", ...
  std::string error;         ///< the message
  int exit_code = 0;         ///< with which it is about to end; 0: not said
  std::string operation;     ///< the operation under way, or ""
  int64_t step = 0;          ///< the step under way, from 1; 0 before the first
  std::vector<int> missing;  ///< ranks that it waited for in vain
};

/// Leaves the reason of a failing rank where its launcher looks for it (convoy launch and torchrun
/// both read it), with what it was doing (convoy/base/activity.h), the ranks it waited for, and the
/// exit code with which it will end, which counts even if the launcher stops it before.
/// Does nothing without a launcher. Never throws, for it runs while a program dies; false when the
/// file could not be written. An earlier reason of the same process stays.
bool write_error_file(const RankEnvironment& environment, std::string_view kind,
                      std::string_view message, const std::vector<int>& missing = {},
                      int exit_code = 0) noexcept;

/// Reads an error file, convoy's or torch's. Empty when there is none or it makes no sense.
std::optional<RankError> read_error_file(const std::filesystem::path& path);

using convoy::host_name;

/// Seconds since 1970.
double wall_time();

/// Seconds since the first call, by a clock that nobody can set: for time-outs.
double steady_time();

}  // namespace convoy::launch
