#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace convoy::prepare {

/// Writes sessions as Parquet: one scalar `user_id` (int64) and list columns of whole numbers or
/// fractions, a row group at a time, so any number of rows passes through bounded memory.
class SessionWriter {
 public:
  struct ListColumn {
    std::string name;
    bool is_float = false;
  };

  /// Writes to `file`; messages speak of `shown`, the name that the file is to have in the end.
  SessionWriter(const std::filesystem::path& file, const std::filesystem::path& shown,
                std::vector<ListColumn> columns, int64_t row_group_size);
  ~SessionWriter();
  SessionWriter(SessionWriter&&) noexcept;

  /// Where the values of the current row are appended, by index of the list column.
  std::vector<int64_t>& ints(size_t column);
  std::vector<float>& floats(size_t column);
  /// Ends the row. All its lists must have the same length.
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
