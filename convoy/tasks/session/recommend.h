#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/job/job.h"
#include "convoy/prepare/items.h"
#include "convoy/tasks/session/row_owners.h"
#include "convoy/train/checkpoints/model_files.h"
#include "convoy/train/trainer.h"

namespace convoy::tasks {

/// Best next items of one session, best first.
struct Recommendation {
  int64_t row = 0;               ///< number of the row in the data
  std::optional<int64_t> owner;  ///< user of the session, where the data says
  std::vector<int64_t> session;  ///< the end of the session that it follows, oldest first
  int64_t session_length = 0;    ///< number of items that the model reads
  std::vector<int64_t> ids;
  std::vector<float> scores;
  std::vector<float> targets;  ///< predictions for the session, as RecommendOptions has them
};

struct RecommendOptions {
  std::string item_feature;
  std::string owner;  ///< scalar column of each row's user; "" or not in the data: unknown
  int64_t top_k = 10;
  int64_t rows = 0;                       ///< number of first rows to take; 0 = all
  std::vector<std::string> targets = {};  ///< columns that the model predicts, too
  std::vector<int64_t> unseen = {};       ///< items that are not recommended
};

/// Scores the rows of `data`, on all ranks, and hands over its `top_k` best items (fewer when
/// there are fewer) on rank 0, in order of the rows. Items of models::kExcluded, where `data` gives
/// it, are left out; a row without items has none.
void recommend(train::Trainer& trainer, const dataset::Dataset& data,
               const RecommendOptions& options,
               const std::function<void(const Recommendation&)>& use);

/// Raw ids and titles of recommendations.
struct RecommendationNames {
  prepare::ItemNames items;
  RowOwners owners = {};
  std::vector<std::string> targets = {};

  /// Returns the raw id of the user whose session a row is; none where the data do not say.
  std::optional<std::string> owner(const Recommendation& row) const;
};

/// Returns the path of a file that a run keeps beside the weights in `folder` or in the folder
/// above; "" = none.
std::filesystem::path kept_file(const std::filesystem::path& folder, const std::string& file);

/// Reads the names of a run's ids, beside the weights in `folder` or in the folder above: of its
/// items, or of another `file`. Returns names without entries where there is no such file.
prepare::ItemNames item_names(const std::filesystem::path& folder,
                              const std::string& file = "items.parquet");

/// Writes recommendations with raw ids: columns row, user_id, rank, item_id, score, name where
/// items have titles, and one for each target.
class RecommendationWriter {
 public:
  virtual ~RecommendationWriter() = default;
  virtual void write(const Recommendation& row) = 0;
  /// Makes the file appear, whole.
  virtual void finish() = 0;
};

/// Opens a writer by the file's ending: .jsonl, .parquet, else CSV; "-": to the standard output.
std::unique_ptr<RecommendationWriter> open_writer(const std::filesystem::path& file,
                                                  const RecommendationNames& names);

}  // namespace convoy::tasks
