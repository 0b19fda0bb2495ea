#include "convoy/data/table_source.h"

#include <arrow/csv/api.h>
#include <arrow/io/api.h>
#include <arrow/memory_pool.h>
#include <arrow/util/compression.h>
#include <fmt/format.h>
#include <parquet/arrow/schema.h>

#include <algorithm>

#include "convoy/base/text.h"
#include "convoy/data/arrow.h"
#include "convoy/data/parquet_file.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBatchRows = 65536;
constexpr int32_t kTextBlock = 16 << 20;  // Arrow wants a row to end in the next block

bool is_parquet(const fs::path& file, const arrow::io::RandomAccessFile& input, int64_t bytes) {
  if (file.extension() == ".parquet" || file.extension() == ".parq") return true;
  if (bytes < 8) return false;
  auto& readable = const_cast<arrow::io::RandomAccessFile&>(input);
  char magic[4] = {};
  auto got = readable.ReadAt(0, 4, magic);
  return got.ok() && std::string_view(magic, 4) == "PAR1";
}

std::shared_ptr<arrow::io::InputStream> open_text(const fs::path& file) {
  auto input = open_file(file);
  if (file.extension() != ".gz") return input;
  std::shared_ptr<arrow::util::Codec> codec =
      arrow_value(arrow::util::Codec::Create(arrow::Compression::GZIP), file);
  return arrow_value(
      arrow::io::CompressedInputStream::Make(codec.get(), input, arrow::system_memory_pool()),
      file);
}

std::string first_line(const fs::path& file) {
  auto input = open_text(file);
  std::string text(1 << 16, '\0');
  int64_t got = arrow_value(input->Read(static_cast<int64_t>(text.size()), text.data()), file);
  text.resize(static_cast<size_t>(got));
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    quoted ^= text[i] == '"';
    if (text[i] == '\n' && !quoted) return text.substr(0, i);
  }
  return text.substr(0, text.find('\n'));  // a quote that nothing closes is a letter
}

/// Number of `c` in a line, but for those inside quotes.
int64_t count_outside_quotes(const std::string& line, char c) {
  if (std::count(line.begin(), line.end(), '"') % 2 != 0) {
    return std::count(line.begin(), line.end(), c);
  }
  bool quoted = false;
  int64_t count = 0;
  for (const char letter : line) {
    quoted ^= letter == '"';
    count += letter == c && !quoted;
  }
  return count;
}

char guess_separator(const std::string& line) {
  char best = ',';
  int64_t most = 0;
  for (char c : {'\t', ',', ';', '|'}) {
    const int64_t count = count_outside_quotes(line, c);
    if (count > most) {
      most = count;
      best = c;
    }
  }
  return best;
}

std::string without_type(const std::string& name) {
  static const std::vector<std::string> kTypes = {"token", "token_seq", "float", "float_seq"};
  size_t colon = name.rfind(':');
  if (colon == std::string::npos || colon == 0) return name;
  bool known = std::find(kTypes.begin(), kTypes.end(), name.substr(colon + 1)) != kTypes.end();
  return known ? name.substr(0, colon) : name;
}

std::shared_ptr<arrow::csv::StreamingReader> open_csv(const fs::path& file,
                                                      const TableOptions& options,
                                                      const arrow::csv::ConvertOptions& convert) {
  auto read = arrow::csv::ReadOptions::Defaults();
  read.use_threads = false;
  read.column_names = options.column_names;
  if (options.texts) read.block_size = kTextBlock;
  auto parse = arrow::csv::ParseOptions::Defaults();
  parse.delimiter = options.separator;
  parse.quoting = options.separator != '\t';
  parse.newlines_in_values = parse.quoting;
  return arrow_value(
      arrow::csv::StreamingReader::Make(arrow::io::IOContext(arrow::system_memory_pool()),
                                        open_text(file), read, parse, convert),
      file);
}

}  // namespace

TableSource::TableSource(fs::path file, const TableOptions& options)
    : file_(std::move(file)), options_(options) {
  std::error_code code;
  if (!fs::exists(file_, code)) {
    if (code) fail<FileError>("data", "cannot read {}: {}", file_.string(), code.message());
    fail<FileError>("data", "{} does not exist; expected a CSV, TSV or Parquet file",
                    file_.string());
  }
  if (!fs::is_regular_file(file_, code)) {
    fail<FileError>("data", "{} is not a file; try the files inside it", file_.string());
  }
  if (file_.extension() == ".zip") {
    fail<FileError>("data", "{} is a zip archive; try `python3 -m zipfile -e {} .` first",
                    file_.string(), file_.string());
  }
  bytes_ = static_cast<int64_t>(fs::file_size(file_, code));
  if (code || bytes_ == 0) fail<FileError>("data", "{} is empty", file_.string());
  is_text_ = !is_parquet(file_, *open_file(file_), bytes_);
  is_text_ ? describe_text() : describe_parquet();
  for (SourceColumn& column : columns_) column.plain = without_type(column.name);
}

void TableSource::refuse_wide() const {
  const auto line = first_line(file_);
  const bool marked = line.starts_with("\xFF\xFE") || line.starts_with("\xFE\xFF");
  if (!marked && line.find('\0') == line.npos) return;
  fail<FileError>(
      "data",
      "{0} is no UTF-8 but looks like UTF-16; expected text in UTF-8; try `iconv -f {1} "
      "-t UTF-8 {0}`",
      file_.string(),
      marked              ? "UTF-16"
      : line.front() == 0 ? "UTF-16BE"
                          : "UTF-16LE");
}

void TableSource::describe_text() {
  refuse_wide();
  if (options_.separator == 0) options_.separator = guess_separator(first_line(file_));
  auto convert = arrow::csv::ConvertOptions::Defaults();
  convert.check_utf8 = false;
  const auto schema = open_csv(file_, options_, convert)->schema();
  for (const auto& field : schema->fields()) {
    columns_.push_back({field->name(), "", field->type()});
  }
}

void TableSource::describe_parquet() {
  const ParquetFile well_formed(file_);  // says in plain words what is wrong with a broken one
  std::shared_ptr<arrow::Schema> schema;
  check_arrow(open_parquet(file_, kBatchRows)->GetSchema(&schema), file_);
  for (const auto& field : schema->fields()) {
    columns_.push_back({field->name(), "", field->type()});
  }
}

int TableSource::find(const std::string& name) const {
  for (const auto member : {&SourceColumn::name, &SourceColumn::plain}) {
    int found = -1;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].*member != name) continue;
      if (found >= 0) {
        fail<FileError>("data",
                        "{} has several columns '{}'; expected each name once; try to "
                        "rename them",
                        file_.string(), name);
      }
      found = static_cast<int>(i);
    }
    if (found >= 0) return found;
  }
  return -1;
}

int TableSource::require(const std::string& name, const std::string& flag) const {
  int index = find(name);
  if (index >= 0) return index;
  std::vector<std::string> names;
  for (const SourceColumn& column : columns_) names.push_back(column.plain);
  const std::string near = nearest(name, names);
  fail<FileError>("data", "column '{}' is missing in {}; {}it has {}; try {}", name, file_.string(),
                  near.empty() ? "" : fmt::format("did you mean '{}'? ", near), join(names), flag);
}

void TableSource::read(const std::vector<int>& columns,
                       const std::vector<std::shared_ptr<arrow::DataType>>& types,
                       const std::function<void(const arrow::RecordBatch&)>& consume,
                       const ProgressFn& progress) const {
  is_text_ ? read_text(columns, types, consume, progress)
           : read_parquet(columns, consume, progress);
}

void TableSource::read_text(const std::vector<int>& columns,
                            const std::vector<std::shared_ptr<arrow::DataType>>& types,
                            const std::function<void(const arrow::RecordBatch&)>& consume,
                            const ProgressFn& progress) const {
  auto convert = arrow::csv::ConvertOptions::Defaults();
  convert.strings_can_be_null = true;
  convert.quoted_strings_can_be_null = false;
  if (options_.texts) convert.null_values = {""};  // NA, null and NaN are words
  for (size_t i = 0; i < columns.size(); ++i) {
    const std::string& name = columns_[static_cast<size_t>(columns[i])].name;
    convert.include_columns.push_back(name);
    if (types[i]) convert.column_types[name] = types[i];
  }
  const auto reader = open_csv(file_, options_, convert);
  each_batch(*reader, file_, [&](const arrow::RecordBatch& batch) {
    consume(batch);
    if (progress) progress(std::min(reader->bytes_read(), bytes_), bytes_);
  });
}

void TableSource::read_parquet(const std::vector<int>& columns,
                               const std::function<void(const arrow::RecordBatch&)>& consume,
                               const ProgressFn& progress) const {
  guarded(file_, [&] {
    auto reader = open_parquet(file_, kBatchRows);
    std::vector<int> leaves;
    for (int column : columns) {
      const auto* field = &reader->manifest().schema_fields[static_cast<size_t>(column)];
      while (options_.lists && field->column_index < 0 && field->children.size() == 1) {
        field = &field->children.front();  // of a list
      }
      if (field->column_index < 0) {
        const SourceColumn& source = columns_[static_cast<size_t>(column)];
        fail<FileError>("data", "column '{}' in {} is {}; expected one value per row", source.plain,
                        file_.string(), source.type->ToString());
      }
      leaves.push_back(field->column_index);
    }
    std::vector<int> groups;
    for (int g = 0; g < reader->num_row_groups(); ++g) groups.push_back(g);
    int64_t total = std::max<int64_t>(1, reader->parquet_reader()->metadata()->num_rows());
    int64_t done = 0;
    auto batches = arrow_value(reader->GetRecordBatchReader(groups, leaves), file_);
    each_batch(*batches, file_, [&](const arrow::RecordBatch& batch) {
      arrow::ArrayVector chosen;
      arrow::FieldVector fields;
      for (int column : columns) {
        const std::string& name = columns_[static_cast<size_t>(column)].name;
        if (!batch.GetColumnByName(name)) {
          fail<FileError>("data", "{} has several columns '{}'; expected each name once",
                          file_.string(), name);
        }
        fields.push_back(batch.schema()->GetFieldByName(name));
        chosen.push_back(batch.GetColumnByName(name));
      }
      consume(*arrow::RecordBatch::Make(arrow::schema(fields), batch.num_rows(), chosen));
      done += batch.num_rows();
      if (progress) {
        progress(static_cast<int64_t>(static_cast<double>(bytes_) * static_cast<double>(done) /
                                      static_cast<double>(total)),
                 bytes_);
      }
    });
  });
}

}  // namespace convoy::data
