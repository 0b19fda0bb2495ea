#pragma once

// Knows Arrow; for sources of this component only.

#include <arrow/api.h>

#include <filesystem>

#include "convoy/data/columns.h"
#include "convoy/data/parquet_file.h"

namespace convoy::data {

/// Decoding of a column of an Arrow type.
struct Decoding {
  bool readable = false;
  bool is_list = false;
  bool may_overflow = false;  ///< uint64: values beyond int64 would turn negative
  bool is_vectors = false;    ///< lists of lists of fractions: readable as vectors only
  Column::Kind kind = Column::Int64;
};

/// Numbers, times, booleans, lists of them, and dictionaries of either are readable, and as vectors
/// lists of fractions and lists of such lists.
Decoding decoding_of(const arrow::DataType& type);

/// Columns of a table as its schema declares them.
std::vector<ColumnInfo> columns_of(const arrow::Schema& schema);

/// Appends every row of `batch` to `rows`. `first_row`: number in the file of the batch's first
/// row, for messages. Throws FileError for a null, an id outside its limit, a vector of another
/// width, or lists of one row that differ in length.
void append_batch(const arrow::RecordBatch& batch, const Selection& selection, int64_t first_row,
                  const std::filesystem::path& path, Rows& rows);

}  // namespace convoy::data
