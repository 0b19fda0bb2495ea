#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "convoy/data/columns.h"
#include "convoy/data/order.h"

namespace convoy::data {

/// A top-level column as the file declares it.
struct ColumnInfo {
  std::string name;
  std::string type;         ///< Arrow's name: "int64", "list<element: int64>", "string"
  bool readable = false;    ///< numbers, or lists of numbers
  bool is_vectors = false;  ///< lists of lists of fractions: readable where a Selection has a width
  bool is_list = false;
  Column::Kind kind = Column::Int64;
};

/// Reads rows in order, a few at a time, in memory that does not depend on the row groups.
class RowStream {
 public:
  virtual ~RowStream() = default;
  /// Appends the next `count` rows to `rows`, fewer at the end. Throws FileError.
  virtual void append(int64_t count, Rows& rows) = 0;
  /// Rows decoded so far, also those passed over to reach the first one.
  virtual int64_t decoded_rows() const = 0;
  /// Returns the next `count` rows, fewer at the end.
  Rows next(int64_t count) {
    Rows rows;
    append(count, rows);
    return rows;
  }
};

/// One Parquet file. A value that never changes: copies are cheap and may be read by several
/// threads at once.
class ParquetFile {
 public:
  /// Throws FileError when the file is missing, empty, cut short, or not Parquet.
  explicit ParquetFile(std::filesystem::path path);

  const std::filesystem::path& path() const;
  const std::vector<ColumnInfo>& columns() const;
  int64_t num_rows() const;
  int64_t num_row_groups() const;
  /// Rows of each row group.
  const std::vector<int64_t>& group_rows() const;
  int64_t file_bytes() const;

  /// Bytes that the selected columns of a row group take once decoded, at most.
  int64_t decoded_bytes(const Selection& selection, int64_t group) const;

  /// Throws FileError that names the column, what the file has, and the nearest name, unless every
  /// selected column is there and readable.
  void check(const Selection& selection) const;

  /// Decodes a whole row group. Throws FileError for nulls, for fractions that are not finite, for
  /// lists of one row that differ in length, for vectors of another width, and for ids outside
  /// their limit, naming column, row, value and file; and when the file was written to since it was
  /// opened.
  Rows read(int64_t group, const Selection& selection) const;

  /// Decodes stretches of row groups one after the other.
  std::unique_ptr<RowStream> stream(std::vector<RowRange> segments,
                                    const Selection& selection) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace convoy::data
