#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convoy/comm/group.h"
#include "convoy/prepare/popularity.h"
#include "convoy/tasks/session/baselines/baseline.h"

namespace convoy::tasks {

/// Beside the weights of a run: how often its training data, and those of earlier runs that it goes
/// on from, have each item.
inline constexpr const char* kCountsFile = "item_counts.json";

/// Counts by id that the run in `folder` keeps; empty: it keeps none. Throws FileError for a file
/// of another form.
std::vector<int64_t> kept_counts(const std::filesystem::path& folder);
std::string to_json(const std::vector<int64_t>& counts);

/// Files and rows of an evaluation that baselines are tried on.
struct BaselineData {
  std::vector<Baseline> baselines = {};
  std::vector<int64_t> counts = {};  ///< by id, in all data that the model was trained on
  std::string train = "";            ///< else Parquet whose items are counted
  std::string items = "";            ///< items.parquet with their counts, where that is not there
  std::string valid = "";            ///< Parquet with the targets
  std::string seen = "";  ///< prepare::kSeenFile; "" = the items of each row are its history
  std::string item_column = "";
  int64_t num_items = 0;
  std::vector<int64_t> top_ks = {};
  prepare::RankedRows rows = {};
};

/// Occurrences of each id in the training data; empty where nothing tells them.
std::vector<int64_t> item_counts(const BaselineData& data);

/// Metrics of each baseline: ease_baseline_ndcg_at_10 and so on, with recall, mrr and, but
/// for popularity, their standard errors. Leaves popularity out where nothing tells the counts.
/// Throws FileError where the data cannot be read.
std::map<std::string, double> measure_baselines(const BaselineData& data);

/// Result of measure_baselines, or nothing with a warning where that throws: an evaluation is not
/// lost for its baselines.
std::map<std::string, double> baselines_if_any(const BaselineData& data);

/// Metrics of baselines beside those of a model, which tell whether the model's are good. Reads
/// the files once, at its first evaluation.
class Baselines {
 public:
  explicit Baselines(BaselineData data) : data_(std::move(data)) {}

  /// Result of baselines_if_any, the same on all ranks. Called by all ranks of `group`, of which
  /// the first reads.
  const std::map<std::string, double>& metrics(const comm::Group& group);

 private:
  BaselineData data_;
  std::optional<std::map<std::string, double>> metrics_;
};

}  // namespace convoy::tasks
