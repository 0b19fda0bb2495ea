#include "convoy/data/parquet_writer.h"

#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <arrow/util/io_util.h>

#include <limits>

#include "convoy/base/files.h"
#include "convoy/data/arrow.h"

namespace convoy::data {
namespace {

/// Runs f, and turns its Arrow status or Parquet exception into a FileError about writing `file`.
template <class F>
void checked(const std::filesystem::path& file, F&& f) {
  try {
    const arrow::Status status = f();
    if (!status.ok()) {
      const int error = arrow::internal::ErrnoFromStatus(status);
      fail<FileError>("data", "cannot write {}: {}", file.string(),
                      error != 0 ? write_trouble(error) : arrow_trouble(status));
    }
  } catch (const parquet::ParquetException& error) {
    fail<FileError>("data", "cannot write {}: {}", file.string(), error.what());
  }
}

}  // namespace

ParquetWriter::ParquetWriter(const std::filesystem::path& file, std::filesystem::path shown,
                             const std::shared_ptr<arrow::Schema>& schema,
                             const ParquetStyle& style)
    : shown_(std::move(shown)) {
  checked(shown_, [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(output_, arrow::io::FileOutputStream::Open(file.string()));
    parquet::WriterProperties::Builder builder;
    builder.compression(parquet::Compression::SNAPPY)
        ->memory_pool(arrow::system_memory_pool())
        ->max_row_group_length(std::numeric_limits<int64_t>::max())
        ->created_by("convoy");
    for (const auto& [column, codec] : style.compression) builder.compression(column, codec);
    if (style.whole_decimals) builder.enable_store_decimal_as_integer();
    auto properties = builder.build();
    parquet::ArrowWriterProperties::Builder arrow_builder;
    arrow_builder.store_schema();
    if (style.keep_list_names) arrow_builder.disable_compliant_nested_types();
    if (style.int96) arrow_builder.enable_deprecated_int96_timestamps();
    auto arrow_properties = arrow_builder.build();
    ARROW_ASSIGN_OR_RAISE(
        writer_, parquet::arrow::FileWriter::Open(*schema, arrow::system_memory_pool(), output_,
                                                  properties, arrow_properties));
    return arrow::Status::OK();
  });
}

ParquetWriter::~ParquetWriter() {
  // A file that was not closed is about to be thrown away: its errors do not matter any more.
  try {
    if (writer_) (void)writer_->Close();
  } catch (...) {
  }
}

void ParquetWriter::begin_row_group() {
  checked(shown_, [&] { return writer_->NewBufferedRowGroup(); });
}

void ParquetWriter::write(const arrow::RecordBatch& batch) {
  checked(shown_, [&] { return writer_->WriteRecordBatch(batch); });
}

void ParquetWriter::close() {
  checked(shown_, [&]() -> arrow::Status {
    auto writer = std::move(writer_);
    ARROW_RETURN_NOT_OK(writer->Close());
    return output_->Close();
  });
}

}  // namespace convoy::data
