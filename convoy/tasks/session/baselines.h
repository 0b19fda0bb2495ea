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

/// File beside the weights of a run with the number of times that its training data, and those of
/// earlier runs that it goes on from, have each item.
inline constexpr const char* kCountsFile = "item_counts.json";

/// Returns the counts by id that the run in `folder` keeps; empty: it keeps none. Throws FileError
/// for a file of another form.
std::vector<int64_t> kept_counts(const std::filesystem::path& folder);
std::string to_json(const std::vector<int64_t>& counts);

/// Files and rows of an evaluation that baselines are tried on.
struct BaselineData {
  std::vector<Baseline> baselines = {};
  std::vector<int64_t> counts = {};  ///< counts by id, in all data that the model was trained on
  std::string train = "";            ///< without counts: Parquet whose items are counted
  std::string items = "";            ///< items.parquet with counts, where train cannot be read
  std::string valid = "";            ///< Parquet with the targets
  std::string seen = "";  ///< prepare::kSeenFile; "" = the items of each row are its history
  std::string item_column = "";
  int64_t num_items = 0;
  std::vector<int64_t> top_ks = {};
  prepare::RankedRows rows = {};
};

/// Returns the number of occurrences of each id in the training data; empty where nothing tells
/// them.
std::vector<int64_t> item_counts(const BaselineData& data);

/// Returns the metrics of each baseline: ease_baseline_ndcg_at_10 and so on, with recall, mrr and,
/// but for popularity, their standard errors. Leaves popularity out where nothing tells the counts.
/// Throws FileError where the data cannot be read.
std::map<std::string, double> measure_baselines(const BaselineData& data);

/// Returns the result of measure_baselines(), or nothing with a warning where that throws: an
/// evaluation is not lost for its baselines.
std::map<std::string, double> baselines_if_any(const BaselineData& data);

/// Metrics of baselines beside those of a model, which tell whether the model's are good. Reads
/// the files once, at its first evaluation.
class Baselines {
 public:
  explicit Baselines(BaselineData data) : data_(std::move(data)) {}

  /// Returns the result of baselines_if_any(), the same on all ranks. All ranks of `group` call it,
  /// and the first reads.
  const std::map<std::string, double>& metrics(const comm::Group& group);

 private:
  BaselineData data_;
  std::optional<std::map<std::string, double>> metrics_;
};

}  // namespace convoy::tasks
