#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace convoy::prepare {

/// Vectors by raw id.
struct Vectors {
  std::vector<std::string> raw_ids;
  int64_t width = 0;
  std::vector<float> values;  ///< [raw ids, width]
};

/// Reads a Parquet file of two columns: raw ids (text or whole numbers; "raw_id" where there are
/// more such columns), and lists of fractions. Throws FileError: other columns, a row without an
/// id, no rows, lists that differ in length, numbers that are not finite.
Vectors read_vectors(const std::filesystem::path& file);

}  // namespace convoy::prepare
