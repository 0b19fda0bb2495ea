#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convoy/comm/group.h"
#include "convoy/prepare/popularity.h"

namespace convoy::tasks {

/// Files and rows of an evaluation that recommending the most popular items is tried on.
struct PopularityData {
  std::string train = "";  ///< Parquet whose items are counted
  std::string items = "";  ///< items.parquet with their counts, where `train` is not there
  std::string valid = "";  ///< Parquet with the targets
  std::string seen = "";   ///< prepare::kSeenFile; "" = the items of each row are what was seen
  std::string item_column = "";
  int64_t num_items = 0;
  std::vector<int64_t> top_ks = {};
  prepare::RankedRows rows = {};
};

/// Metrics of recommending the most popular items of the training data to everyone:
/// popularity_baseline_ndcg_at_10 and so on with recall and mrr; nothing where the counts or the
/// targets cannot be read.
std::map<std::string, double> measure_popularity(const PopularityData& data);

/// Metrics of popularity beside those of a model, which tell whether the model's are good. Reads
/// the files once, at its first evaluation.
class Popularity {
 public:
  explicit Popularity(PopularityData data) : data_(std::move(data)) {}

  /// Result of measure_popularity, the same on all ranks. Called by all ranks of `group`, of which
  /// the first reads.
  const std::map<std::string, double>& metrics(const comm::Group& group);

 private:
  PopularityData data_;
  std::optional<std::map<std::string, double>> metrics_;
};

}  // namespace convoy::tasks
