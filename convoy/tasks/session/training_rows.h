#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "convoy/data/micro_batch.h"
#include "convoy/data/parquet_files.h"
#include "convoy/models/session/session.h"

namespace convoy::tasks {

/// Counts over the rows of a training file, as a model reads them.
struct TrainingRows {
  int64_t num_rows = 0, num_items = 0;
  /// Occurrences by id in all rows, read or not, but for context, which other rows have.
  std::vector<int64_t> counts;
  std::vector<int64_t> target_counts;   ///< targets with a weight, by id, where they are read
  int64_t context_items = 0;            ///< context (prepare::kNumContext) that is read
  int64_t short_rows = 0;               ///< rows of one item or none, which train nothing
  int64_t cut_rows = 0, cut_items = 0;  ///< rows beyond max_length, and items not read of them
  /// Whether a row that trains something (of two items or more) has the id, by id, where it is
  /// read.
  std::vector<bool> seen;
  std::map<std::string, std::vector<bool>> seen_values;  ///< alike, of other categorical columns
  std::string weights_note;  ///< sentence on the weights of the targets; "" where all are alike

  /// Returns a warning of what is cut to `max_length`; "" where nothing is.
  std::string warning(int64_t max_length) const;
};

/// Reads the columns of ids, and the weights of events, once. Throws FileError for ids that the
/// model does not have, for context that is longer than its row, and for negative weights.
TrainingRows survey_training(const data::ParquetFiles& data, const models::SessionConfig& model,
                             const data::ListLimits& limits);

}  // namespace convoy::tasks
