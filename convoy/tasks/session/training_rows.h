#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/data/micro_batch.h"
#include "convoy/data/parquet_files.h"

namespace convoy::tasks {

/// Counts over the rows of a training file, as a model reads them.
struct TrainingRows {
  int64_t num_rows = 0, num_items = 0;
  int64_t cut_rows = 0, cut_items = 0;  ///< rows beyond max_length, and what is not read of them
  /// By id, whether a row that trains something (of two items or more) has it, where it is read.
  std::vector<bool> seen;

  /// A warning of what is cut; "" where nothing is. `max_length`: what it was cut to.
  std::string warning(int64_t max_length) const;
};

/// Reads the column of items once. Throws FileError for ids beyond `num_ids`.
TrainingRows survey_training(const data::ParquetFiles& data, const std::string& item_column,
                             int64_t num_ids, const data::ListLimits& limits);

}  // namespace convoy::tasks
