#include "convoy/data/labelled_texts.h"

#include <arrow/api.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/data/arrow.h"
#include "convoy/data/arrow_types.h"
#include "convoy/data/table_source.h"
#include "convoy/data/text_source.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

/// Columns in the order that rows are read in, and where their values go.
struct Field {
  std::string name;
  const char* option;
  std::vector<std::string>* values;
};

std::vector<Field> places_of(const LabelledColumns& columns, LabelledTexts& out) {
  std::vector<Field> places{{columns.text, "--data.text", &out.texts}};
  if (!columns.label.empty()) places.push_back({columns.label, "--data.label", &out.labels});
  if (!columns.second.empty()) {
    places.push_back({columns.second, "--data.text_pair", &out.seconds});
  }
  return places;
}

std::string value_in(const Json& object, const Field& place, const fs::path& file, int64_t number) {
  const auto found = object.is_object() ? object.find(place.name) : object.end();
  if (object.is_object() && found != object.end()) {
    if (found->is_string()) return found->get<std::string>();
    if (found->is_number_integer() || found->is_boolean()) return found->dump();
  }
  fail<FileError>("data", "{}:{} has no '{}' that is a text or a whole number; try {} NAME",
                  file.string(), number, place.name, place.option);
}

void read_json_lines(const fs::path& file, const std::vector<Field>& places) {
  LineReader in(file, "an object a line");
  int64_t number = 0;
  for (std::string line; in.next(line);) {
    ++number;
    if (trim(line).empty()) continue;
    const Json object = parse_json(line, fmt::format("{}:{}", file.string(), number));
    for (const auto& place : places) {
      place.values->push_back(value_in(object, place, file, number));
    }
  }
}

/// A value of a column as text.
std::string text_of(const arrow::Array& array, int64_t row, const Field& place,
                    const fs::path& file, int64_t number) {
  if (array.IsNull(row)) {
    fail<FileError>("data", "{}: column '{}' has no value in row {}; expected one in every row",
                    file.string(), place.name, number);
  }
  if (array.type_id() == arrow::Type::DICTIONARY) {
    const auto& words = static_cast<const arrow::DictionaryArray&>(array);
    return text_of(*words.dictionary(), words.GetValueIndex(row), place, file, number);
  }
  std::string text;
  if (with_texts(array, [&](const auto& texts) { text = texts.GetView(row); })) return text;
  if (!arrow::is_integer(array.type_id()) && array.type_id() != arrow::Type::BOOL) {
    fail<FileError>("data", "{}: column '{}' holds {}; expected text or whole numbers",
                    file.string(), place.name, array.type()->ToString());
  }
  return arrow_value(array.GetScalar(row), file)->ToString();
}

void read_table(const fs::path& file, const std::vector<Field>& places) {
  const TableSource source(file, {.texts = true});
  std::vector<int> indices;
  const std::vector<std::shared_ptr<arrow::DataType>> types(places.size(), arrow::utf8());
  for (const auto& place : places) indices.push_back(source.require(place.name, place.option));
  int64_t number = source.first_row();
  source.read(indices, types,
              [&](const arrow::RecordBatch& rows) {
                for (int64_t row = 0; row < rows.num_rows(); ++row, ++number) {
                  for (size_t i = 0; i < places.size(); ++i) {
                    places[i].values->push_back(
                        text_of(*rows.column(static_cast<int>(i)), row, places[i], file, number));
                  }
                }
              },
              {});
}

}  // namespace

bool has_column(const fs::path& file, const std::string& column) {
  std::error_code error;
  if (fs::exists(file, error) && !fs::is_regular_file(file, error)) return false;  // read once only
  check_text_file(file, ".csv, .tsv, .jsonl or .parquet");
  if (kind_of_texts(file) != ".jsonl") {
    return TableSource(file, {.texts = true}).find(column) >= 0;
  }
  LineReader in(file, "an object a line");
  for (std::string line; in.next(line);) {
    if (trim(line).empty()) continue;
    const Json object = parse_json(line, fmt::format("{}:1", file.string()));
    return object.is_object() && object.contains(column);
  }
  return false;
}

LabelledTexts read_labelled_texts(const fs::path& file, const LabelledColumns& columns) {
  check_text_file(file, ".csv, .tsv, .jsonl or .parquet");
  LabelledTexts out;
  const auto places = places_of(columns, out);
  if (kind_of_texts(file) == ".jsonl") {
    read_json_lines(file, places);
  } else {
    read_table(file, places);
  }
  if (out.texts.empty()) {
    fail<FileError>("data", "{} has no row; expected texts", file.string());
  }
  return out;
}

}  // namespace convoy::data
