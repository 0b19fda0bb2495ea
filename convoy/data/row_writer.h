#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace convoy::data {

/// Writes a table as Parquet row by row, in bounded memory.
class RowWriter {
 public:
  /// Value of one column of a row; the first alternative is none.
  using Value = std::variant<std::monostate, int64_t, float, double, std::string>;
  /// Name of a column, and some value of its type.
  using Column = std::pair<std::string, Value>;

  /// Writes to `file`; messages speak of `shown`, the name that the file is to have in the end.
  /// Throws FileError.
  RowWriter(const std::filesystem::path& file, const std::filesystem::path& shown,
            const std::vector<Column>& columns);
  ~RowWriter();

  /// Writes a row: for each column a value of its type, or none. Throws FileError.
  void add(const std::vector<Value>& row);
  /// Writes what is left and the footer. Throws FileError.
  void close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::data
