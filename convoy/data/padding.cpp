#include "convoy/data/padding.h"

#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/error.h"

namespace convoy::data {

bool has_inner_padding(const Column& ids, int64_t row) {
  const auto begin = ids.ints.begin() + ids.begin(row);
  const auto end = begin + unpadded_length(ids, row);
  return std::find(begin, end, 0) != end;
}

std::string row_text(const ParquetFiles& dataset, int64_t row) {
  for (const auto& file : dataset.files()) {
    if (row < file.num_rows()) return fmt::format("row {} of {}", row, file.path().string());
    row -= file.num_rows();
  }
  return fmt::format("row {} of {}", row, dataset.where());
}

void refuse_inner_padding(const ParquetFiles& dataset, const Rows& rows, const std::string& column,
                          int64_t first) {
  const auto& ids = rows.columns.at(column);
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    if (!has_inner_padding(ids, row)) continue;
    fail<FileError>("data",
                    "{} has 0, which is padding, before an item of '{}'; expected padding at the "
                    "end of rows only; move it there, or leave it out",
                    row_text(dataset, first + row), column);
  }
}

}  // namespace convoy::data
