#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convoy/data/parquet_file.h"
#include "convoy/formats/schema.h"

namespace convoy::data {

/// Reads `columns`, checking ids of categorical ones against the schema's domains.
Selection select(const formats::Schema& schema, const std::vector<std::string>& columns);

/// Parquet files read as one: their row groups follow each other in the order of the files' names.
/// A value that never changes, like ParquetFile.
class ParquetFiles {
 public:
  /// `where`: a file, a folder (all *.parquet inside, hidden ones not), or a pattern such as
  /// "day-*/train.parquet". Throws FileError when nothing matches or a file cannot be read.
  explicit ParquetFiles(const std::string& where);

  const std::string& where() const { return where_; }
  const std::vector<ParquetFile>& files() const { return files_; }
  /// Columns of the first file.
  const std::vector<ColumnInfo>& columns() const { return files_.front().columns(); }
  /// Rows of each row group, over all files.
  const std::vector<int64_t>& group_rows() const { return group_rows_; }
  int64_t num_row_groups() const { return static_cast<int64_t>(group_rows_.size()); }
  int64_t num_rows() const { return num_rows_; }

  /// Throws FileError unless every file has the selected columns, as numbers of one kind.
  void check(const Selection& selection) const;
  /// Bytes that a row group takes once decoded, at most.
  int64_t decoded_bytes(const Selection& selection, int64_t group) const;
  int64_t decoded_bytes(const Selection& selection) const;  ///< of all row groups
  /// Decodes a row group; see ParquetFile::read.
  Rows read(int64_t group, const Selection& selection) const;
  /// Decodes stretches one after the other; see ParquetFile::stream.
  std::unique_ptr<RowStream> stream(const std::vector<RowRange>& segments,
                                    const Selection& selection) const;

 private:
  struct Place {
    size_t file;
    int64_t group;  // in the file
  };

  std::string where_;
  std::vector<ParquetFile> files_;
  std::vector<Place> places_;  // of each row group
  std::vector<int64_t> group_rows_;
  int64_t num_rows_ = 0;
};

/// Whether a column has one whole number a row, or with `is_list` a list of them, and can be read.
bool has_numbers(const ParquetFiles& files, const std::string& name, bool is_list = false);

}  // namespace convoy::data
