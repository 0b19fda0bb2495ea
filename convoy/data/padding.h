#pragma once

#include <cstdint>
#include <string>

#include "convoy/data/columns.h"
#include "convoy/data/parquet_files.h"

namespace convoy::data {

/// Number of values of a row of ids before the padding, 0, at its end.
inline int64_t unpadded_length(const Column& ids, int64_t row) {
  int64_t end = ids.end(row);
  while (end > ids.begin(row) && ids.ints[static_cast<size_t>(end - 1)] == 0) --end;
  return end - ids.begin(row);
}

/// Whether a row of ids has padding, 0, before its last id.
bool has_inner_padding(const Column& ids, int64_t row);

/// Text such as "row 3 of FILE" for a row by its place in all files.
std::string row_text(const ParquetFiles& dataset, int64_t row);

/// Throws FileError, naming file and row, where a row of the items in `column` has padding before
/// its last item. `rows` are those of `dataset` from `first` on.
void refuse_inner_padding(const ParquetFiles& dataset, const Rows& rows, const std::string& column,
                          int64_t first);

}  // namespace convoy::data
