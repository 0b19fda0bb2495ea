#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convoy/data/parquet_files.h"

namespace convoy::tasks {

/// Binary matrix as lists: for each person the distinct items in the training data.
struct Interactions {
  int64_t num_columns = 0;     ///< entries of a row lie in [0, num_columns)
  std::vector<int32_t> items;  ///< of all rows, one row after the other, ascending in each
  std::vector<int64_t> ends;   ///< of each row in `items`

  int64_t num_rows() const { return std::ssize(ends); }
  std::span<const int32_t> row(int64_t at) const;
  /// Returns the transpose: for each column the rows that have it.
  Interactions transposed() const;
};

/// Reads the interactions of a Parquet file of sessions, without their context. The whole numbers
/// in `owner_column` are the persons; "" = each row is a person of its own. Columns are item ids,
/// of which 0 (padding) is in no row. Throws FileError for an id beyond `num_items`.
Interactions read_interactions(const data::ParquetFiles& train, const std::string& item_column,
                               const std::string& owner_column, int64_t num_items);

}  // namespace convoy::tasks
