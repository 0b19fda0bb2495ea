#pragma once

// Internal to the component: the one place where foreign tables (CSV, TSV, Parquet) are opened
// through Arrow.

#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "convoy/base/progress.h"
#include "convoy/data/table_options.h"

namespace convoy::data {

/// Column of a table, as far as its first block tells.
struct SourceColumn {
  std::string name;   ///< name in the file: "user_id:token"
  std::string plain;  ///< without RecBole's type: "user_id"
  std::shared_ptr<arrow::DataType> type;
};

/// One CSV, TSV (also .gz) or Parquet file of interactions.
class TableSource {
 public:
  TableSource(std::filesystem::path file, const TableOptions& options);

  const std::filesystem::path& file() const { return file_; }
  const std::vector<SourceColumn>& columns() const { return columns_; }

  /// Index of the column called `name` (with or without RecBole's type); -1 when there is none.
  /// Throws FileError where several are called so: they may hold different things.
  int find(const std::string& name) const;
  /// Returns the index of a column like find(); throws FileError, which lists the columns and names
  /// `flag`, when it is missing.
  int require(const std::string& name, const std::string& flag) const;

  /// Reads the chosen columns batch by batch. In text files column i is read as types[i]
  /// (null pointer: as guessed); Parquet keeps its own types. `progress` counts bytes.
  void read(const std::vector<int>& columns,
            const std::vector<std::shared_ptr<arrow::DataType>>& types,
            const std::function<void(const arrow::RecordBatch&)>& consume,
            const ProgressFn& progress) const;

  bool is_text() const { return is_text_; }
  /// Returns the number of the first row for messages: in text files the header is row 1, in
  /// Parquet rows count from 0.
  int64_t first_row() const { return !is_text_ ? 0 : options_.column_names.empty() ? 2 : 1; }
  int64_t bytes() const { return bytes_; }

 private:
  void refuse_wide() const;
  void describe_text();
  void describe_parquet();
  void read_text(const std::vector<int>& columns,
                 const std::vector<std::shared_ptr<arrow::DataType>>& types,
                 const std::function<void(const arrow::RecordBatch&)>& consume,
                 const ProgressFn& progress) const;
  void read_parquet(const std::vector<int>& columns,
                    const std::function<void(const arrow::RecordBatch&)>& consume,
                    const ProgressFn& progress) const;

  std::filesystem::path file_;
  TableOptions options_;
  std::vector<SourceColumn> columns_;
  bool is_text_ = true;
  int64_t bytes_ = 0;
};

}  // namespace convoy::data
