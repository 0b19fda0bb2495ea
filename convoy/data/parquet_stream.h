#pragma once

// Knows Arrow; for sources of this component only.

#include <arrow/api.h>

#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "convoy/data/arrow.h"
#include "convoy/data/parquet_file.h"

namespace convoy::data {

/// Reads segments of one file through Arrow's batch reader.
class FileStream : public RowStream {
 public:
  FileStream(const std::filesystem::path& path, std::unique_ptr<parquet::arrow::FileReader> reader,
             std::vector<int> leaves, std::vector<RowRange> segments,
             std::vector<int64_t> group_first_row, Selection selection)
      : path_(path),
        reader_(std::move(reader)),
        leaves_(std::move(leaves)),
        segments_(std::move(segments)),
        group_first_row_(std::move(group_first_row)),
        selection_(std::move(selection)) {}

  void append(int64_t count, Rows& rows) override;
  int64_t decoded_rows() const override { return decoded_rows_; }

 private:
  /// Makes [batch_begin_, batch_end_) hold rows of the current segment; false at the very end.
  bool advance();

  std::filesystem::path path_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<int> leaves_;
  std::vector<RowRange> segments_;
  std::vector<int64_t> group_first_row_;
  Selection selection_;
  std::unique_ptr<arrow::RecordBatchReader> batches_;
  std::shared_ptr<arrow::RecordBatch> batch_;
  size_t segment_ = 0;
  int64_t place_ = 0;        // rows of the row group read so far
  int64_t batch_start_ = 0;  // first row of batch_ in its row group
  int64_t batch_begin_ = 0;  // rows of batch_ still to deliver, in its row group
  int64_t batch_end_ = 0;
  int64_t decoded_rows_ = 0;
};

}  // namespace convoy::data
