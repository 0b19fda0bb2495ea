#include "convoy/data/arrow.h"

#include <arrow/memory_pool.h>
#include <arrow/util/io_util.h>

#include <cstring>

namespace convoy::data {

namespace {

constexpr int64_t kStreamBuffer = 64 << 10;

}  // namespace

std::string arrow_trouble(const arrow::Status& status) {
  if (status.message().find("straddles two block boundaries") != std::string::npos) {
    return "a row is too long for a table of text, or a quote in it never ends; try .jsonl";
  }
  if (status.message().find("Empty CSV file") != std::string::npos) {
    return "holds no rows; expected a header and rows below it";
  }
  const int error = arrow::internal::ErrnoFromStatus(status);
  return error != 0 ? std::strerror(error) : status.message();
}

void check_arrow(const arrow::Status& status, const std::filesystem::path& file) {
  if (status.ok()) return;
  const bool system = arrow::internal::ErrnoFromStatus(status) != 0;
  fail<FileError>("data", "{}{}: {}{}", system ? "cannot read " : "", file.string(),
                  arrow_trouble(status),
                  status.IsIOError() && !system ? "; the file may be damaged" : "");
}

std::shared_ptr<arrow::io::ReadableFile> open_file(const std::filesystem::path& file) {
  return arrow_value(arrow::io::ReadableFile::Open(file.string(), arrow::system_memory_pool()),
                     file);
}

std::unique_ptr<parquet::arrow::FileReader> open_parquet(
    const std::filesystem::path& file, int64_t batch_rows,
    std::shared_ptr<arrow::io::ReadableFile> input,
    std::shared_ptr<parquet::FileMetaData> metadata) {
  parquet::ReaderProperties properties(arrow::system_memory_pool());
  properties.enable_buffered_stream();
  properties.set_buffer_size(kStreamBuffer);
  parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
  arrow_properties.set_pre_buffer(false);
  arrow_properties.set_batch_size(batch_rows);
  return guarded(file, [&] {
    parquet::arrow::FileReaderBuilder builder;
    check_arrow(builder.Open(input ? input : open_file(file), properties, std::move(metadata)),
                file);
    builder.memory_pool(arrow::system_memory_pool())->properties(arrow_properties);
    return arrow_value(builder.Build(), file);
  });
}

}  // namespace convoy::data
