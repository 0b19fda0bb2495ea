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
  /// By id, occurrences in all rows, read or not, but for context, which other rows have.
  std::vector<int64_t> counts;
  std::vector<int64_t> target_counts;   ///< by id, targets that have a weight, where they are read
  int64_t context_items = 0;            ///< of those that are read, context (prepare::kNumContext)
  int64_t short_rows = 0;               ///< rows of one item or none, which train nothing
  int64_t cut_rows = 0, cut_items = 0;  ///< rows beyond max_length, and what is not read of them
  /// By id, whether a row that trains something (of two items or more) has it, where it is read.
  std::vector<bool> seen;
  std::map<std::string, std::vector<bool>> seen_values;  ///< of other categorical columns
  std::string weights_note;  ///< sentence on the weights of the targets; "" where all are alike

  /// A warning of what is cut; "" where nothing is. `max_length`: what it was cut to.
  std::string warning(int64_t max_length) const;
};

/// Reads the columns of ids, and the weights of events, once. Throws FileError for ids that the
/// model does not have, for context that is longer than its row, and for negative weights.
TrainingRows survey_training(const data::ParquetFiles& data, const models::SessionConfig& model,
                             const data::ListLimits& limits);

}  // namespace convoy::tasks
