#include "convoy/data/text_source.h"

#include <arrow/api.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/piped_input.h"
#include "convoy/base/text.h"
#include "convoy/data/arrow.h"
#include "convoy/data/arrow_dataset.h"
#include "convoy/data/arrow_types.h"
#include "convoy/data/table_source.h"
#include "convoy/tokenizers/unicode/unicode.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBatchBytes = 1 << 20;

/// Collects texts and hands them on.
class Batcher {
 public:
  Batcher(const fs::path& file, const std::function<void(TextBatch)>& consume) : consume_(consume) {
    batch_.file = file;
  }

  void add(std::string_view text, std::string_view end = "") {
    batch_.bytes += text;
    batch_.bytes += end;
    batch_.ends.push_back(batch_.bytes.size());
    if (batch_.bytes.size() >= kBatchBytes) flush();
  }
  void add_malformed(size_t count) { batch_.num_malformed += static_cast<int64_t>(count); }
  void flush() {
    if (batch_.ends.empty()) return;
    TextBatch next;
    next.file = batch_.file;
    next.first = batch_.first + batch_.size();
    consume_(std::exchange(batch_, std::move(next)));
  }

 private:
  const std::function<void(TextBatch)>& consume_;
  TextBatch batch_;
};

/// Calls `each(line, ended)` for all stretches before a "\n"; `ended`: whether there was one.
template <class Each>
void for_lines(const fs::path& file, const ProgressFn& progress, const Each& each) {
  LineReader in(file, "a file of text");
  std::error_code code;
  const auto size = static_cast<int64_t>(fs::file_size(file, code));
  int64_t done = 0;
  for (std::string line; in.next(line);) {
    each(line, in.ended());
    done += static_cast<int64_t>(line.size()) + 1;
    if (progress) progress(std::min(done, size), size);
  }
}

void read_lines(const fs::path& file, Batcher& batcher, const ProgressFn& progress) {
  for_lines(file, progress, [&](std::string_view line, bool ended) {
    if (ended && line.ends_with('\r')) line.remove_suffix(1);
    for (size_t at = line.find('\r'); at != line.npos; at = line.find('\r')) {
      batcher.add(line.substr(0, at), "\n");
      line.remove_prefix(at + 1);
    }
    if (ended || !line.empty()) batcher.add(line, ended ? "\n" : "");
  });
}

void read_json_lines(const fs::path& file, const std::string& column, Batcher& batcher,
                     const ProgressFn& progress) {
  int64_t number = 0;
  std::string clean;
  for_lines(file, progress, [&](std::string_view line, bool /*ended*/) {
    ++number;
    if (trim(line).empty()) return;
    if (tokenizers::well_formed_prefix(line) < line.size()) {
      clean.clear();
      batcher.add_malformed(tokenizers::replace_malformed(line, clean));
      line = clean;
    }
    const Json object = parse_json(line, fmt::format("{}:{}", file.string(), number));
    if (object.is_object() && object.contains(column) && !object[column].is_string()) {
      fail<FileError>(
          "data", "{}:{}: '{}' is {}; expected a text", file.string(), number, column,
          object[column].is_null() ? "null" : "a " + std::string(object[column].type_name()));
    }
    if (!object.is_object() || !object.contains(column)) {
      fail<FileError>("data",
                      "{}:{} has no text '{}'; expected an object a line, such as {{\"{}\": "
                      "\"...\"}}; try --column NAME",
                      file.string(), number, column, column);
    }
    batcher.add(object[column].get_ref<const std::string&>());
  });
}

template <class Array>
void add_all(const Array& array, const fs::path& file, const std::string& column, int64_t first,
             Batcher& batcher) {
  for (int64_t i = 0; i < array.length(); ++i) {
    if (array.IsNull(i)) {
      fail<FileError>("data", "column '{}' of {} has no text in row {}; expected one in every row",
                      column, file.string(), first + i);
    }
    batcher.add(array.GetView(i));
  }
}

/// Appends a column of texts, batch by batch.
class TextColumn {
 public:
  TextColumn(const fs::path& file, const std::string& column, Batcher& batcher)
      : file_(file), column_(column), batcher_(batcher) {}

  void append(const arrow::Array& values) {
    const auto add = [&](const auto& all) { add_all(all, file_, column_, first_, batcher_); };
    if (!with_texts(values, add)) {
      fail<FileError>("data", "column '{}' of {} holds {}; expected text", column_, file_.string(),
                      values.type()->ToString());
    }
    first_ += values.length();
  }

 private:
  const fs::path& file_;
  const std::string& column_;
  Batcher& batcher_;
  int64_t first_ = 0;
};

void read_parquet(const fs::path& file, const std::string& column, Batcher& batcher,
                  const ProgressFn& progress) {
  const TableSource source(file, {});
  TextColumn texts(file, column, batcher);
  source.read(
      {source.require(column, "--column")}, {},
      [&](const arrow::RecordBatch& rows) { texts.append(*rows.column(0)); }, progress);
}

void read_arrow(const fs::path& file, const std::string& column, Batcher& batcher,
                const ProgressFn& progress) {
  const ArrowDataset source(file);
  const int index = source.schema().GetFieldIndex(column);
  if (index < 0) {
    fail<FileError>("data", "{} has no column '{}'; it has {}; try --column NAME", file.string(),
                    column, join(source.schema().field_names()));
  }
  TextColumn texts(file, column, batcher);
  source.read(
      [&](const arrow::RecordBatch& rows) {
        check_arrow(rows.column(index)->ValidateFull(), file);
        texts.append(*rows.column(index));
      },
      progress);
}

}  // namespace

std::string kind_of_texts(const fs::path& file) {
  if (ArrowDataset::is_one(file)) return ".arrow";
  if (file.has_extension()) return file.extension().string();
  std::string begin(1 << 12, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<size_t>(in.gcount()));
  return begin.starts_with("PAR1") ? ".parquet" : trim(begin).starts_with("{") ? ".jsonl" : ".txt";
}

void check_text_file(const fs::path& file, const char* kinds) {
  std::error_code code;
  if (fs::is_regular_file(file, code) || ArrowDataset::is_one(file)) return;
  if (is_piped(file.string())) {
    fail<FileError>("data",
                    "{} is a pipe, which gives its texts only once; expected a file that is read "
                    "again in each run; try convoy data tokenize {} first",
                    file.string(), file.string());
  }
  fail<FileError>("data", "{} {}; expected {}",
                  fs::is_directory(file, code) ? "a folder is no file:" : "there is no file",
                  file.string(), kinds);
}

void read_texts(const fs::path& file, const std::string& column,
                const std::function<void(TextBatch)>& consume, const ProgressFn& progress) {
  check_text_file(file, kKindsOfTexts);
  Batcher batcher(file, consume);
  const std::string kind = kind_of_texts(file);
  if (kind == ".txt") {
    read_lines(file, batcher, progress);
  } else if (kind == ".jsonl") {
    read_json_lines(file, column, batcher, progress);
  } else if (kind == ".parquet") {
    read_parquet(file, column, batcher, progress);
  } else if (kind == ".arrow") {
    read_arrow(file, column, batcher, progress);
  } else {
    fail<UsageError>("data", "{} is '{}'; expected {}", file.string(), kind, kKindsOfTexts);
  }
  batcher.flush();
}

}  // namespace convoy::data
