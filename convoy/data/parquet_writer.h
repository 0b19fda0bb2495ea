#pragma once

// Internal to the component: writing Parquet through Arrow.

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <parquet/arrow/writer.h>
#include <parquet/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

namespace convoy::data {

struct ParquetStyle {
  bool keep_list_names = false;  ///< of lists' entries; otherwise Parquet's own, "element"
  bool int96 = false;            ///< timestamps as INT96, as older programs have them
  bool whole_decimals = false;   ///< decimals of up to 18 digits as INT32 or INT64
  /// Codecs of columns that Snappy does not compress, by their paths.
  std::map<std::string, parquet::Compression::type> compression = {};
};

/// A Parquet file being written; errors are FileErrors that name `shown`.
class ParquetWriter {
 public:
  /// Writes to `file`; messages speak of `shown`, the name that the file is to have in the end.
  ParquetWriter(const std::filesystem::path& file, std::filesystem::path shown,
                const std::shared_ptr<arrow::Schema>& schema, const ParquetStyle& style = {});
  ~ParquetWriter();

  void begin_row_group();
  /// Appends to the row group; pages are encoded at once, so memory holds one encoded row group.
  void write(const arrow::RecordBatch& batch);
  void close();

 private:
  std::filesystem::path shown_;
  std::shared_ptr<arrow::io::OutputStream> output_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

}  // namespace convoy::data
