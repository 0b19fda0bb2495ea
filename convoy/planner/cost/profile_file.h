#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/base/progress.h"
#include "convoy/planner/cost/block_costs.h"
#include "convoy/planner/devices/this_host.h"

namespace convoy::planner {

/// Setting that measured costs hold for.
struct ProfiledFor {
  std::string machine;    ///< its processor, and the cores that the process may use
  std::string torch;      ///< its version
  std::string model;      ///< its blocks and parameters
  std::string rows;       ///< shapes of a row of the data
  std::string precision;  ///< of products
  std::string optim;
  std::vector<std::string> options;  ///< the task's own, of model and data, as lines
  int64_t threads = 1;               ///< of a rank
  int64_t ranks = 1;                 ///< of all hosts; those of one computed at once
};

/// Costs of a run on this host, as a file keeps them.
struct Profile {
  ProfiledFor of = {};
  MeasuredBlocks blocks = {};
  std::vector<std::string> names = {};  ///< of the blocks
  double update_seconds = 0;            ///< of the optimizer, for an element
  double accumulate_seconds = 0;        ///< of adding a gradient's element to those before it
  SumsOfHosts sums = {};
  double spread = 0;     ///< of the times (see BlockCosts::spread)
  double disk_rate = 0;  ///< of offload_dir (see disk_bytes_per_second); 0: none was given
};

/// Ranks that a profile is measured for.
struct ProfiledRanks {
  int number = 1;
  std::optional<SumsOfHosts> sums = {};  ///< of these ranks; none: all are of this host
  int threads = 0;  ///< of a rank; 0: parallel.threads, or the cores shared out
};

/// Runs the blocks of a model for some sizes of micro-batches, of as many of each number of tensor
/// ranks as the number of ranks divides by and the model takes, those of this host at once, and
/// measures updates and the disk of offload_dir. Measures all-reduces between threads where
/// `ranks.sums` are not given.
Profile measure_profile(const parallel::ModelFactory& factory, options::TrainingArguments arguments,
                        const dataset::Dataset& data, const ProfiledRanks& ranks,
                        const ProgressFn& progress);

/// Setting of a profile made here and now, with as many threads as this thread has.
ProfiledFor profiled_for(const parallel::ModelFactory& factory,
                         const options::TrainingArguments& arguments, const dataset::Dataset& data,
                         int num_ranks);

/// A warning where times of the same work differed so much that plans are uncertain.
std::vector<std::string> spread_warnings(double spread);

Json to_json(const Profile& profile);
/// Throws FileError where `json`, of `file`, is no profile.
Profile profile_from_json(const Json& json, const std::string& file);

/// Whether a file of costs is a profile.
bool is_profile(const Json& json);

/// Throws UsageError, naming `file`, where a profile is for another setting.
void check_profile(const ProfiledFor& of, const ProfiledFor& now, const std::string& file);

/// Throws UsageError where a profile names other blocks than this model has.
void check_names(const Profile& profile, const parallel::ModelDecl& model, const std::string& file);

/// Costs of a profile by which a pipeline is cut, for micro-batches of so many rows. Throws
/// UsageError, naming `file`, where its blocks are not those of `model`.
std::vector<parallel::BlockCounts> counts_of(const Profile& profile, int64_t rows, int tensor,
                                             const parallel::ModelDecl& model,
                                             const std::string& file);

}  // namespace convoy::planner
