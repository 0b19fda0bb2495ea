#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace convoy::conformance {

/// Numbers that a run logged, by step. Where it went back to an earlier checkpoint, those of the
/// steps that it left behind are gone.
struct RunLog {
  std::string folder;
  int64_t first_step = 0;  ///< after which the log begins: above 0 where another run was resumed
  int64_t max_steps = 0;   ///< that it was to train, by its last start; 0: not known
  std::map<int64_t, double> losses;                                   ///< mean since the last line
  std::map<int64_t, double> grad_norms;                               ///< of that step
  std::map<int64_t, std::map<std::string, double>> evaluations;       ///< by metric
  std::map<int64_t, std::string> rows_sums;                           ///< of all rows read so far
  std::map<int64_t, std::map<std::string, std::string>> weight_sums;  ///< by parameter
  std::map<std::string, std::string> options;                         ///< of run.toml

  int64_t last_step() const { return losses.empty() ? 0 : losses.rbegin()->first; }
  bool has_ended() const { return max_steps == 0 || last_step() >= max_steps; }
  /// First step of those whose mean the loss of `step` is, which was logged.
  int64_t first_of(int64_t step) const;
  bool half_precision() const;
};

/// Reads log.jsonl of a run's folder, and the options from `run_toml`; "": there are none. A line
/// that was cut is left out. Throws FileError where there is no log, or no step in it.
RunLog read_run_log(const std::filesystem::path& folder, const std::filesystem::path& run_toml);

}  // namespace convoy::conformance
