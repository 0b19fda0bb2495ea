#pragma once

// Knows Arrow; for sources only: what Arrow says becomes our errors, and Parquet is opened here.

#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::data {

/// Reason of a failed status: the system's own word where there is one ("Permission denied"),
/// because Arrow's says only that opening failed.
std::string arrow_trouble(const arrow::Status& status);

/// Throws FileError that names `file` unless `status` is fine.
void check_arrow(const arrow::Status& status, const std::filesystem::path& file);

template <class T>
T arrow_value(arrow::Result<T> result, const std::filesystem::path& file) {
  check_arrow(result.status(), file);
  return std::move(result).ValueUnsafe();
}

/// Calls `consume` with each batch that `reader` has left of `file`.
template <class Consume>
void each_batch(arrow::RecordBatchReader& reader, const std::filesystem::path& file,
                const Consume& consume) {
  while (const auto batch = arrow_value(reader.Next(), file)) consume(*batch);
}

/// Runs `work`, turning Parquet's exceptions into FileErrors that name `file`.
template <class Work>
auto guarded(const std::filesystem::path& file, Work&& work) {
  try {
    return work();
  } catch (const parquet::ParquetException& error) {
    fail<FileError>("data", "cannot read {}: {}; the file may be damaged", file.string(),
                    error.what());
  }
}

std::shared_ptr<arrow::io::ReadableFile> open_file(const std::filesystem::path& file);

/// A reader in this thread that decodes `batch_rows` at a time and holds little besides them.
/// `input` and `metadata`: of the same file, when it was opened before.
std::unique_ptr<parquet::arrow::FileReader> open_parquet(
    const std::filesystem::path& file, int64_t batch_rows,
    std::shared_ptr<arrow::io::ReadableFile> input = nullptr,
    std::shared_ptr<parquet::FileMetaData> metadata = nullptr);

}  // namespace convoy::data
