#pragma once

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace convoy::data::testing {

/// What `work` says when it throws.
template <class Work>
std::string message_of(Work&& work) {
  try {
    work();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

using Named = std::pair<std::string, std::shared_ptr<arrow::Array>>;

inline void ok(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

/// A column of lists of a file.
inline std::vector<std::vector<int64_t>> read_int_lists(const std::filesystem::path& file,
                                                        const std::string& column) {
  auto in = arrow::io::ReadableFile::Open(file.string()).ValueOrDie();
  auto reader = parquet::arrow::OpenFile(in, arrow::default_memory_pool()).ValueOrDie();
  auto whole = reader->ReadTable().ValueOrDie()->CombineChunks().ValueOrDie();
  auto list = std::static_pointer_cast<arrow::ListArray>(whole->GetColumnByName(column)->chunk(0));
  auto values = std::static_pointer_cast<arrow::Int64Array>(list->values());
  std::vector<std::vector<int64_t>> out;
  for (int64_t row = 0; row < list->length(); ++row) {
    out.emplace_back();
    for (int64_t i = list->value_offset(row); i < list->value_offset(row + 1); ++i) {
      out.back().push_back(values->Value(i));
    }
  }
  return out;
}

/// An array of numbers from an Arrow builder: numbers<arrow::Int64Builder>({1, 2}).
template <class Builder, class Value = typename Builder::value_type>
std::shared_ptr<arrow::Array> numbers(const std::vector<Value>& values) {
  Builder builder;
  for (Value value : values) ok(builder.Append(value));
  return builder.Finish().ValueOrDie();
}

template <class Builder, class List = arrow::ListBuilder,
          class Value = typename Builder::value_type>
std::shared_ptr<arrow::Array> lists(const std::vector<std::vector<Value>>& rows) {
  auto values = std::make_shared<Builder>();
  List builder(arrow::default_memory_pool(), values);
  for (const auto& row : rows) {
    ok(builder.Append());
    for (Value value : row) ok(values->Append(value));
  }
  return builder.Finish().ValueOrDie();
}

inline std::shared_ptr<arrow::Array> ints(const std::vector<int64_t>& values) {
  return numbers<arrow::Int64Builder>(values);
}
inline std::shared_ptr<arrow::Array> int_lists(const std::vector<std::vector<int64_t>>& rows) {
  return lists<arrow::Int64Builder>(rows);
}
inline std::shared_ptr<arrow::Array> float_lists(const std::vector<std::vector<float>>& rows) {
  return lists<arrow::FloatBuilder>(rows);
}

/// A list of vectors a row; with `nulls` a vector that is null behind the last.
inline std::shared_ptr<arrow::Array> vector_lists(
    const std::vector<std::vector<std::vector<float>>>& rows, bool nulls = false) {
  auto values = std::make_shared<arrow::FloatBuilder>();
  auto vectors = std::make_shared<arrow::ListBuilder>(arrow::default_memory_pool(), values);
  arrow::ListBuilder builder(arrow::default_memory_pool(), vectors);
  for (const auto& row : rows) {
    ok(builder.Append());
    for (const auto& vector : row) {
      ok(vectors->Append());
      ok(values->AppendValues(vector));
    }
  }
  if (nulls) ok(vectors->AppendNull());
  return builder.Finish().ValueOrDie();
}

inline std::shared_ptr<arrow::Array> words(const std::vector<std::string>& values) {
  arrow::StringBuilder builder;
  ok(builder.AppendValues(values));
  return builder.Finish().ValueOrDie();
}

/// A column as pandas writes categories.
inline std::shared_ptr<arrow::Array> categories(const std::vector<std::optional<int32_t>>& codes,
                                                const std::vector<std::string>& names) {
  arrow::Int32Builder builder;
  for (const auto& code : codes) ok(code ? builder.Append(*code) : builder.AppendNull());
  return arrow::DictionaryArray::FromArrays(builder.Finish().ValueOrDie(), words(names))
      .ValueOrDie();
}

/// Writes columns as a Parquet file whose row groups hold `row_group_size` rows.
inline void write_parquet(
    const std::filesystem::path& path, const std::vector<Named>& columns,
    int64_t row_group_size = 1 << 20,
    std::shared_ptr<parquet::WriterProperties> properties = parquet::default_writer_properties(),
    const std::shared_ptr<const arrow::KeyValueMetadata>& metadata = nullptr) {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (const auto& [name, array] : columns) {
    fields.push_back(arrow::field(name, array->type()));
    arrays.push_back(array);
  }
  auto table = arrow::Table::Make(arrow::schema(fields, metadata), arrays);
  auto out = arrow::io::FileOutputStream::Open(path.string()).ValueOrDie();
  auto keep_types = parquet::ArrowWriterProperties::Builder().store_schema()->build();
  ok(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, row_group_size,
                                std::move(properties), keep_types));
  ok(out->Close());
}

}  // namespace convoy::data::testing

/// Expects `statement` to throw an error whose message contains `part`.
#define EXPECT_MESSAGE(statement, part)                                                 \
  do {                                                                                  \
    const std::string message = convoy::data::testing::message_of([&] { statement; });  \
    EXPECT_NE(message.find(part), std::string::npos) << "the message was: " << message; \
  } while (false)
