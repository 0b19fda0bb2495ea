#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace convoy::prepare {

/// Writes sessions as Parquet: a scalar column `user_id` (int64), and columns of whole numbers or
/// fractions, which are lists unless they have one value a row. Writes a row group at a time, in
/// bounded memory for any number of rows.
class SessionWriter {
 public:
  struct Column {
    std::string name;
    bool is_float = false;
    bool is_list = true;
  };

  /// Writes to `file`; messages speak of `shown`, the name that the file is to have in the end.
  SessionWriter(const std::filesystem::path& file, const std::filesystem::path& shown,
                std::vector<Column> columns, int64_t row_group_size);
  ~SessionWriter();
  SessionWriter(SessionWriter&&) noexcept;

  /// Values of the current row in a column, by its index, for the caller to append to.
  std::vector<int64_t>& ints(size_t column);
  std::vector<float>& floats(size_t column);
  /// Ends the row. All its lists must have the same length. The first column is a list.
  void end_row(int64_t user_id);

  /// Writes what is left and the footer. Throws FileError.
  void close();

  int64_t num_rows() const;
  int64_t num_row_groups() const;
  int64_t num_values() const;  ///< entries of the first list column over all rows

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace convoy::prepare
