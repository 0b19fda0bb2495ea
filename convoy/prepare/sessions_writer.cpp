#include "convoy/prepare/sessions_writer.h"

#include <arrow/array.h>
#include <arrow/buffer.h>

#include "convoy/base/error.h"
#include "convoy/data/parquet_writer.h"

namespace convoy::prepare {
namespace {

template <class ArrayType, class T>
std::shared_ptr<arrow::Array> wrap(const std::vector<T>& values) {
  return std::make_shared<ArrayType>(static_cast<int64_t>(values.size()),
                                     arrow::Buffer::Wrap(values));
}

std::shared_ptr<arrow::Schema> schema_of(const std::vector<SessionWriter::Column>& columns) {
  arrow::FieldVector fields = {arrow::field("user_id", arrow::int64())};
  for (const auto& column : columns) {
    auto element = column.is_float ? arrow::float32() : arrow::int64();
    fields.push_back(arrow::field(column.name, column.is_list ? arrow::list(element) : element));
  }
  return arrow::schema(fields);
}

}  // namespace

struct SessionWriter::Impl {
  std::vector<Column> columns;
  int64_t row_group_size;
  std::shared_ptr<arrow::Schema> schema;
  data::ParquetWriter writer;

  std::vector<int64_t> users;
  std::vector<int32_t> offsets = {0};
  std::vector<std::vector<int64_t>> ints;
  std::vector<std::vector<float>> floats;
  int64_t rows = 0;
  int64_t groups = 0;
  int64_t values = 0;

  Impl(const std::filesystem::path& file, const std::filesystem::path& shown,
       std::vector<Column> lists, int64_t group_size)
      : columns(std::move(lists)),
        row_group_size(group_size),
        schema(schema_of(columns)),
        writer(file, shown, schema),
        ints(columns.size()),
        floats(columns.size()) {}

  size_t length(size_t column) const {
    return columns[column].is_float ? floats[column].size() : ints[column].size();
  }

  void flush() {
    if (users.empty()) return;
    auto shared_offsets = arrow::Buffer::Wrap(offsets);
    arrow::ArrayVector arrays = {wrap<arrow::Int64Array>(users)};
    for (size_t c = 0; c < columns.size(); ++c) {
      auto elements = columns[c].is_float ? wrap<arrow::FloatArray>(floats[c])
                                          : wrap<arrow::Int64Array>(ints[c]);
      if (!columns[c].is_list) {
        arrays.push_back(std::move(elements));
        continue;
      }
      arrays.push_back(std::make_shared<arrow::ListArray>(
          schema->field(static_cast<int>(c) + 1)->type(), static_cast<int64_t>(users.size()),
          shared_offsets, elements));
    }
    writer.begin_row_group();
    writer.write(*arrow::RecordBatch::Make(schema, static_cast<int64_t>(users.size()), arrays));
    ++groups;
    values += offsets.back();
    users.clear();
    offsets = {0};
    for (size_t c = 0; c < columns.size(); ++c) {
      ints[c].clear();
      floats[c].clear();
    }
  }
};

SessionWriter::SessionWriter(const std::filesystem::path& file, const std::filesystem::path& shown,
                             std::vector<Column> columns, int64_t row_group_size)
    : impl_(std::make_unique<Impl>(file, shown, std::move(columns), row_group_size)) {}
SessionWriter::~SessionWriter() = default;
SessionWriter::SessionWriter(SessionWriter&&) noexcept = default;

std::vector<int64_t>& SessionWriter::ints(size_t column) {
  return impl_->ints[column];
}
std::vector<float>& SessionWriter::floats(size_t column) {
  return impl_->floats[column];
}

void SessionWriter::end_row(int64_t user_id) {
  const size_t length = impl_->length(0);
  for (size_t c = 1; c < impl_->columns.size(); ++c) {
    const size_t wanted = impl_->columns[c].is_list ? length : impl_->users.size() + 1;
    internal_check(impl_->length(c) == wanted, "data", "column '{}' has {} values, expected {}",
                   impl_->columns[c].name, impl_->length(c), wanted);
  }
  impl_->users.push_back(user_id);
  impl_->offsets.push_back(static_cast<int32_t>(length));
  ++impl_->rows;
  if (static_cast<int64_t>(impl_->users.size()) >= impl_->row_group_size) impl_->flush();
}

void SessionWriter::close() {
  impl_->flush();
  impl_->writer.close();
}

int64_t SessionWriter::num_rows() const {
  return impl_->rows;
}
int64_t SessionWriter::num_row_groups() const {
  return impl_->groups;
}
int64_t SessionWriter::num_values() const {
  return impl_->values + impl_->offsets.back();
}

}  // namespace convoy::prepare
