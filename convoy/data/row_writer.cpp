#include "convoy/data/row_writer.h"

#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/memory_pool.h>
#include <arrow/table_builder.h>
#include <arrow/type_traits.h>

#include <type_traits>

#include "convoy/data/arrow.h"
#include "convoy/data/parquet_writer.h"

namespace convoy::data {
namespace {

constexpr int64_t kRowsPerGroup = 65536;

std::shared_ptr<arrow::Schema> schema_of(const std::vector<RowWriter::Column>& columns) {
  arrow::FieldVector fields;
  for (const auto& [name, value] : columns) {
    const auto type_of = [](const auto& some) -> std::shared_ptr<arrow::DataType> {
      using T = std::decay_t<decltype(some)>;
      if constexpr (std::is_same_v<T, std::monostate>) {
        return arrow::null();
      } else {
        return arrow::CTypeTraits<T>::type_singleton();
      }
    };
    fields.push_back(arrow::field(name, std::visit(type_of, value)));
  }
  return arrow::schema(fields);
}

arrow::Status append(arrow::ArrayBuilder& column, const RowWriter::Value& value) {
  const auto append_to = [&](const auto& some) -> arrow::Status {
    using T = std::decay_t<decltype(some)>;
    if constexpr (std::is_same_v<T, std::monostate>) {
      return column.AppendNull();
    } else {
      using Traits = arrow::CTypeTraits<T>;
      internal_check(column.type()->id() == Traits::ArrowType::type_id, "data",
                     "a column gets a value of another type");
      return static_cast<typename Traits::BuilderType&>(column).Append(some);
    }
  };
  return std::visit(append_to, value);
}

}  // namespace

struct RowWriter::Impl {
  Impl(const std::filesystem::path& file, const std::filesystem::path& name,
       const std::vector<Column>& columns)
      : shown(name),
        schema(schema_of(columns)),
        writer(file, shown, schema),
        rows(arrow_value(arrow::RecordBatchBuilder::Make(schema, arrow::default_memory_pool()),
                         shown)) {}

  int64_t num_rows() const { return rows->GetField(0)->length(); }

  void flush() {
    if (num_rows() == 0) return;
    const auto batch = arrow_value(rows->Flush(), shown);
    writer.begin_row_group();
    writer.write(*batch);
  }

  std::filesystem::path shown;
  std::shared_ptr<arrow::Schema> schema;
  ParquetWriter writer;
  std::unique_ptr<arrow::RecordBatchBuilder> rows;  // of the row group that is not written yet
};

RowWriter::RowWriter(const std::filesystem::path& file, const std::filesystem::path& shown,
                     const std::vector<Column>& columns)
    : impl_(std::make_unique<Impl>(file, shown, columns)) {}

RowWriter::~RowWriter() = default;

void RowWriter::add(const std::vector<Value>& row) {
  internal_check(std::ssize(row) == impl_->rows->num_fields(), "data",
                 "a row of {} values for {} columns", row.size(), impl_->rows->num_fields());
  for (size_t i = 0; i < row.size(); ++i) {
    check_arrow(append(*impl_->rows->GetField(static_cast<int>(i)), row[i]), impl_->shown);
  }
  if (impl_->num_rows() == kRowsPerGroup) impl_->flush();
}

void RowWriter::close() {
  impl_->flush();
  impl_->writer.close();
}

}  // namespace convoy::data
