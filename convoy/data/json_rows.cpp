#include "convoy/data/json_rows.h"

#include <arrow/api.h>
#include <arrow/io/compressed.h>
#include <arrow/util/compression.h>

#include <algorithm>
#include <optional>

#include "convoy/base/error.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/data/arrow.h"
#include "convoy/data/arrow_types.h"
#include "convoy/data/text_source.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

/// Compression that a file's name tells.
std::optional<arrow::Compression::type> compression_of(const fs::path& file) {
  const auto end = file.extension();
  if (end == ".gz") return arrow::Compression::GZIP;
  if (end == ".zst") return arrow::Compression::ZSTD;
  return std::nullopt;
}

/// Ending of a file's name, less that of its compression.
std::string kind_of_rows(const fs::path& file) {
  if (compression_of(file)) return file.stem().extension().string();
  return kind_of_texts(file);
}

/// Lines of a file that may be compressed.
class Lines {
 public:
  explicit Lines(const fs::path& file) : file_(file), input_(open_file(file)) {
    const auto compression = compression_of(file);
    if (!compression) return;
    codec_ = arrow_value(arrow::util::Codec::Create(*compression), file);
    input_ = arrow_value(
        arrow::io::CompressedInputStream::Make(codec_.get(), input_, arrow::system_memory_pool()),
        file);
  }

  /// Reads the next line without its end; false at the end of the file.
  bool next(std::string& line) {
    for (size_t looked = begin_;;) {
      const size_t end = bytes_.find('\n', looked);
      if (end != std::string::npos) {
        line.assign(bytes_, begin_, end - begin_);
        begin_ = end + 1;
        return true;
      }
      looked = bytes_.size() - begin_;
      bytes_.erase(0, begin_);
      begin_ = 0;
      if (!fill()) break;
    }
    line = std::move(bytes_);
    bytes_.clear();
    return !line.empty();
  }

 private:
  bool fill() {
    constexpr int64_t kAtOnce = 1 << 18;
    const size_t before = bytes_.size();
    bytes_.resize(before + static_cast<size_t>(kAtOnce));
    const auto got = arrow_value(input_->Read(kAtOnce, bytes_.data() + before), file_);
    bytes_.resize(before + static_cast<size_t>(got));
    return got > 0;
  }

  fs::path file_;
  std::unique_ptr<arrow::util::Codec> codec_;
  std::shared_ptr<arrow::io::InputStream> input_;
  std::string bytes_;
  size_t begin_ = 0;  // of what is left
};

void read_lines(const fs::path& file,
                const std::function<void(OrderedJson, const std::string&)>& row,
                const std::function<void(const std::string&)>& broken) {
  Lines lines(file);
  int64_t number = 0;
  for (std::string line; lines.next(line);) {
    const auto where = fmt::format("{}:{}", file.string(), ++number);
    std::string_view text = line;
    if (number == 1 && text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    if (trim(text).empty()) continue;
    OrderedJson object;
    try {
      parse_json(text, where);  // for its sentences
      object = OrderedJson::parse(text);
    } catch (const FileError& error) {
      broken(error.what());
      continue;
    }
    row(std::move(object), where);
  }
}

/// Value of a column as JSON, without nulls inside it.
OrderedJson value_of(const arrow::Array& array, int64_t row, const fs::path& file) {
  if (array.IsNull(row)) return nullptr;
  OrderedJson out;
  if (with_texts(array, [&](const auto& all) { out = std::string(all.GetView(row)); })) return out;
  const auto elements = [&](const auto& lists) {
    out = OrderedJson::array();
    for (int64_t i = lists.value_offset(row); i < lists.value_offset(row + 1); ++i) {
      out.push_back(value_of(*lists.values(), i, file));
    }
  };
  if (array.type_id() == arrow::Type::STRUCT) {
    const auto& all = static_cast<const arrow::StructArray&>(array);
    out = OrderedJson::object();
    for (int i = 0; i < all.num_fields(); ++i) {
      auto value = value_of(*all.field(i), row, file);
      if (!value.is_null()) out[all.type()->field(i)->name()] = std::move(value);
    }
    return out;
  }
  if (with_type<arrow::ListArray, arrow::LargeListArray>(array, elements)) return out;
  if (array.type_id() == arrow::Type::BOOL) {
    return static_cast<const arrow::BooleanArray&>(array).Value(row);
  }
  const auto number = [&](const auto& all) { out = all.Value(row); };
  if (with_integers(array, number) || with_fractions(array, number)) return out;
  if (array.type_id() == arrow::Type::DICTIONARY) {
    const auto& words = static_cast<const arrow::DictionaryArray&>(array);
    return value_of(*words.dictionary(), words.GetValueIndex(row), file);
  }
  fail<FileError>("data", "{} holds {} in a conversation; expected texts, numbers, lists, objects",
                  file.string(), array.type()->ToString());
}

void read_parquet_rows(const fs::path& file, const std::vector<std::string>& columns,
                       const std::function<void(OrderedJson, const std::string&)>& row) {
  constexpr int64_t kRowsAtOnce = 256;
  const auto reader = open_parquet(file, kRowsAtOnce);
  const auto* metadata = reader->parquet_reader()->metadata()->schema();
  std::vector<int> leaves, groups;
  for (int i = 0; i < metadata->num_columns(); ++i) {
    const auto& name = metadata->GetColumnRoot(i)->name();
    if (std::find(columns.begin(), columns.end(), name) != columns.end()) leaves.push_back(i);
  }
  if (leaves.empty()) {
    fail<FileError>("data", "{} has no column {}", file.string(), join(columns, " or "));
  }
  for (int i = 0; i < reader->num_row_groups(); ++i) groups.push_back(i);
  int64_t number = 0;
  guarded(file, [&] {
    const auto batches = arrow_value(reader->GetRecordBatchReader(groups, leaves), file);
    each_batch(*batches, file, [&](const arrow::RecordBatch& rows) {
      for (int64_t i = 0; i < rows.num_rows(); ++i) {
        auto object = OrderedJson::object();
        for (int c = 0; c < rows.num_columns(); ++c) {
          auto value = value_of(*rows.column(c), i, file);
          if (!value.is_null()) object[rows.column_name(c)] = std::move(value);
        }
        row(std::move(object), fmt::format("row {} of {}", number++, file.string()));
      }
    });
  });
}

}  // namespace

bool holds_json_rows(const fs::path& file) {
  const auto kind = kind_of_rows(file);
  return kind == ".jsonl" || (kind == ".parquet" && !compression_of(file));
}

void read_json_rows(const fs::path& file, const std::vector<std::string>& columns,
                    const std::function<void(OrderedJson, const std::string&)>& row,
                    const std::function<void(const std::string&)>& broken) {
  const char* kinds = ".jsonl, .jsonl.gz, .jsonl.zst or .parquet";
  check_text_file(file, kinds);
  if (!holds_json_rows(file)) {
    fail<UsageError>("data", "{} is '{}'; expected {}", file.string(), file.extension().string(),
                     kinds);
  }
  if (kind_of_rows(file) == ".parquet") {
    read_parquet_rows(file, columns, row);
  } else {
    read_lines(file, row, broken);
  }
}

}  // namespace convoy::data
