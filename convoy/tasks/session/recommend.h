#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "convoy/data/items.h"
#include "convoy/train/trainer.h"

namespace convoy::tasks {

/// The best next items of one session, best first.
struct Recommendation {
  int64_t row = 0;               ///< of the data
  std::vector<int64_t> session;  ///< what it is recommended after, oldest first
  std::vector<int64_t> ids;
  std::vector<float> scores;
};

/// Scores every row of `data` and hands over its `top_k` best items (fewer when there are fewer).
/// `exclude_seen`: items of the session itself are left out.
void recommend(train::Trainer& trainer, const train::Dataset& data, const std::string& item_feature,
               int64_t top_k, bool exclude_seen,
               const std::function<void(const Recommendation&)>& use);

/// Writes recommendations with raw ids: columns row, rank, item_id, score, name.
class RecommendationWriter {
 public:
  virtual ~RecommendationWriter() = default;
  virtual void write(const Recommendation& row) = 0;
  /// The file appears now, whole.
  virtual void finish() = 0;
};

/// By the file's ending: .csv, .jsonl or .parquet.
std::unique_ptr<RecommendationWriter> open_writer(const std::filesystem::path& file,
                                                  const data::ItemNames& names);

}  // namespace convoy::tasks
