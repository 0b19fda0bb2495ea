#include "convoy/data/token_file.h"

#include <arrow/api.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/arrow.h"
#include "convoy/data/arrow_dataset.h"
#include "convoy/data/arrow_decode.h"
#include "convoy/data/binary_tokens.h"
#include "convoy/data/parquet_file.h"
#include "convoy/data/table_source.h"
#include "convoy/data/text_source.h"

namespace convoy::data {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kRowsAtOnce = 4096;
// Columns that other tools write beside the ids.
constexpr const char* kMaskColumn = "attention_mask";
constexpr const char* kLabelsColumn = "labels";

/// Columns of a table that holds ids.
struct IdsColumns {
  fs::path path;
  std::string ids;
  std::vector<std::string> beside;  // of the columns above those that it has

  Selection selection() const {
    Selection out;
    out.columns = {ids};
    out.limits[ids] = {INT32_MAX,
                       "try convoy data tokenize, or --column NAME of another column of ids"};
    out.columns.insert(out.columns.end(), beside.begin(), beside.end());
    return out;
  }
};

/// A Parquet file of ids, open.
struct IdsFile {
  ParquetFile file;
  IdsColumns columns;
  std::string fingerprint;  // "": the file does not say whose ids they are
  int32_t vocab_size = 0;   // 0: nor how many there are
};

/// Reads who made the ids, where `convoy data tokenize` wrote the file.
void read_metadata(const fs::path& file, IdsFile& out) {
  std::shared_ptr<arrow::Schema> schema;
  check_arrow(open_parquet(file, kRowsAtOnce)->GetSchema(&schema), file);
  const auto& metadata = schema->metadata();
  if (metadata == nullptr || !metadata->Contains(kTokenizerKey)) return;
  out.fingerprint = arrow_value(metadata->Get(kTokenizerKey), file);
  const auto size = metadata->Get(kVocabSizeKey).ValueOr("");
  int64_t number = 0;
  if (!parse_number(size, number) || number < 1 || number > INT32_MAX) {
    fail<FileError>("data",
                    "{}: {} = '{}' in its metadata; expected a number from 1 to {}; try convoy "
                    "data tokenize again",
                    file.string(), kVocabSizeKey, printable(size), INT32_MAX);
  }
  out.vocab_size = static_cast<int32_t>(number);
}

/// Columns of the ids: the named column, or `input_ids` where it does not exist and the name is a
/// default (not `named`). Nothing where the table holds no ids.
std::optional<IdsColumns> ids_columns(const std::vector<ColumnInfo>& columns, const fs::path& path,
                                      const std::string& column, bool named) {
  const auto find = [&](const std::string& name) {
    return std::find_if(columns.begin(), columns.end(),
                        [&](const ColumnInfo& one) { return one.name == name; });
  };
  const auto holds_numbers = [&](const std::string& name) {
    const auto found = find(name);
    return found != columns.end() && found->readable && found->is_list;
  };
  const auto holds_ids = [&](const std::string& name) {
    return holds_numbers(name) && find(name)->kind == Column::Int64;
  };
  IdsColumns out{path, column, {}};
  if (find(column) == columns.end() && !named) out.ids = kIdsColumn;
  if (!holds_ids(out.ids)) return std::nullopt;
  for (const char* name : {kMaskColumn, kLabelsColumn}) {
    if (name != out.ids && holds_numbers(name)) out.beside.emplace_back(name);
  }
  return out;
}

/// Opens a file of ids. Returns nothing when the file holds no ids.
std::optional<IdsFile> open_ids(const fs::path& file, const std::string& column) {
  if (!fs::is_regular_file(file) || kind_of_texts(file) != ".parquet") return std::nullopt;
  IdsFile out{ParquetFile(file), {}, "", 0};
  read_metadata(file, out);
  const bool named = column != kTextColumn && out.fingerprint.empty();
  auto columns = ids_columns(out.file.columns(), file, column, named);
  if (!columns) return std::nullopt;
  out.columns = std::move(*columns);
  return out;
}

/// Returns the columns of ids of Arrow's own files; nothing when they hold no ids.
std::optional<IdsColumns> ids_columns(const ArrowDataset& source, const fs::path& file,
                                      const std::string& column) {
  return ids_columns(columns_of(source.schema()), file, column, column != kTextColumn);
}

/// Throws FileError where a mask or labels leave out tokens: blocks train on every id.
void check_beside(const IdsColumns& from, const Rows& rows, int64_t first_row) {
  const auto& ids = rows.columns.at(from.ids);
  const auto refuse = [&](auto place, auto begin, const std::string& what, const char* expected) {
    const auto row = std::upper_bound(ids.offsets.begin(), ids.offsets.end(), place - begin) -
                     ids.offsets.begin() - 1;
    fail<UsageError>("data", "{}: {} in row {}; expected {}", from.path.string(), what,
                     first_row + row, expected);
  };
  for (const auto& name : from.beside) {
    const auto check = [&](const auto& values) {
      if (name == kMaskColumn) {
        const auto wrong = std::find(values.begin(), values.end(), 0);
        if (wrong == values.end()) return;
        refuse(wrong, values.begin(), name + " is 0",
               "ids without padding, for all are learnt; try the ids as they were before it");
      }
      const auto wrong =
          std::mismatch(values.begin(), values.end(), ids.ints.begin(), ids.ints.end()).first;
      if (wrong == values.end() && values.size() == ids.ints.size()) return;
      refuse(wrong, values.begin(), fmt::format("{} differ from {}", name, from.ids),
             "the same, for all ids are learnt; try a file without them");
    };
    const auto& column = rows.columns.at(name);
    column.kind == Column::Float32 ? check(column.floats) : check(column.ints);
  }
}

/// Appends rows, of which the first is `first_row` of its table.
void append_rows(const IdsColumns& from, const Rows& rows, int64_t first_row, TokenTexts& out) {
  check_beside(from, rows, first_row);
  const auto& column = rows.columns.at(from.ids);
  const std::vector<int32_t> ids(column.ints.begin(), column.ints.end());
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    out.ends.push_back(out.ids->size() + column.end(row));
  }
  out.ids->append(ids);
}

TokenTexts read_ids(const IdsFile& from, int64_t memory_budget, const ProgressFn& progress) {
  TokenTexts out{std::make_shared<TokenStore>(memory_budget)};
  out.fingerprint = from.fingerprint;
  out.vocab_size = from.vocab_size;
  std::vector<RowRange> all;
  for (int64_t group = 0; group < from.file.num_row_groups(); ++group) {
    const int64_t rows = from.file.group_rows()[static_cast<size_t>(group)];
    if (rows > 0) all.push_back({group, 0, rows});
  }
  const auto stream = from.file.stream(all, from.columns.selection());
  Rows rows;
  for (int64_t done = 0; done < from.file.num_rows(); done += rows.num_rows) {
    rows.clear();
    stream->append(kRowsAtOnce, rows);
    append_rows(from.columns, rows, done, out);
    if (progress) progress(done + rows.num_rows, from.file.num_rows());
  }
  return out;
}

TokenTexts read_arrow_ids(const ArrowDataset& source, const IdsColumns& from, int64_t memory_budget,
                          const ProgressFn& progress) {
  TokenTexts out{std::make_shared<TokenStore>(memory_budget)};
  const auto selection = from.selection();
  int64_t first = 0;
  Rows rows;
  source.read(
      [&](const arrow::RecordBatch& batch) {
        for (const auto& name : selection.columns) {
          check_arrow(batch.GetColumnByName(name)->ValidateFull(), from.path);
        }
        rows.clear();
        append_batch(batch, selection, first, from.path, rows);
        append_rows(from, rows, first, out);
        first += rows.num_rows;
      },
      progress);
  return out;
}

/// Reads ids of another program's binary file; nothing for other files.
std::optional<TokenTexts> read_foreign(const fs::path& file, const std::string& column,
                                       int64_t memory_budget, const ProgressFn& progress) {
  if (auto binary = map_binary_tokens(file)) {
    TokenTexts out{std::make_shared<TokenStore>(binary->ids, std::move(binary->mapped))};
    out.ends = std::move(binary->ends);
    return out;
  }
  if (!ArrowDataset::is_one(file)) return std::nullopt;
  const ArrowDataset source(file);
  const auto ids = ids_columns(source, file, column);
  if (!ids) return std::nullopt;
  return read_arrow_ids(source, *ids, memory_budget, progress);
}

/// Throws FileError unless the file is a text file, or a table with a column of texts.
void check_is_text(const fs::path& file, const std::string& column) {
  check_text_file(file, kKindsOfTexts);
  if (kind_of_texts(file) != ".parquet") return;
  const TableSource table(file, {});
  const auto index = static_cast<size_t>(table.require(column, "--column"));
  const auto& type = *table.columns()[index].type;
  if (type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING) return;
  fail<FileError>("data", "column '{}' of {} holds {}; expected text, or lists of integers", column,
                  file.string(), type.ToString());
}

}  // namespace

std::optional<int32_t> vocab_size_of_ids(const fs::path& file, const std::string& column) {
  if (holds_binary_tokens(file)) return 0;
  if (ArrowDataset::is_one(file) && ids_columns(ArrowDataset(file), file, column)) return 0;
  const auto ids = open_ids(file, column);
  return ids ? std::optional(ids->vocab_size) : std::nullopt;
}

TokenTexts read_token_texts(const fs::path& file, const std::string& column,
                            const std::optional<tokenizers::Tokenizer>& tokenizer,
                            int64_t memory_budget, const ProgressFn& progress) {
  if (auto foreign = read_foreign(file, column, memory_budget, progress)) return *foreign;
  if (const auto ids = open_ids(file, column)) {
    const bool known = !ids->fingerprint.empty();
    if (tokenizer && known && tokenizer->fingerprint() != ids->fingerprint) {
      fail<UsageError>("data",
                       "{} was made with another tokenizer ({}) than this model's ({}); try "
                       "convoy data tokenize with this one",
                       file.string(), ids->fingerprint, tokenizer->fingerprint());
    }
    return read_ids(*ids, memory_budget, progress);
  }
  if (!tokenizer) {
    check_is_text(file, column);
    if (ArrowDataset::is_one(file)) {
      fail<UsageError>("data",
                       "{} has no column of ids '{}', and there is no tokenizer for texts; it has "
                       "{}; try --column NAME, or --data.tokenizer FOLDER",
                       file.string(), column == kTextColumn ? kIdsColumn : column,
                       join(ArrowDataset(file).schema().field_names()));
    }
    fail<UsageError>(
        "data",
        "{} is text, and there is no tokenizer for it; try --data.tokenizer FOLDER, a file of "
        "convoy data tokenize, or --column NAME of a column of ids",
        file.string());
  }
  TokenTexts out{std::make_shared<TokenStore>(memory_budget)};
  out.fingerprint = tokenizer->fingerprint();
  out.vocab_size = tokenizer->vocab_size();
  std::vector<int32_t> ids;  // of a batch
  read_texts(
      file, column,
      [&](const TextBatch& batch) {
        out.num_malformed += batch.num_malformed;
        ids.clear();
        for (int64_t i = 0; i < batch.size(); ++i) {
          out.num_malformed += static_cast<int64_t>(tokenizer->encode(batch.text(i), ids));
          out.ends.push_back(out.ids->size() + std::ssize(ids));
        }
        out.ids->append(ids);
      },
      progress);
  return out;
}

int64_t num_held_out(int64_t num_texts, double percent) {
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(num_texts) * percent / 100));
}

std::vector<int64_t> cut_blocks(const TokenTexts& texts, int64_t first_text, int64_t end_text,
                                int64_t texts_at_once, int64_t block_size) {
  std::vector<int64_t> blocks;
  const auto begin_of = [&](int64_t text) {
    return text == 0 ? 0 : texts.ends[static_cast<size_t>(text - 1)];
  };
  const int64_t step =
      texts_at_once > 0 ? texts_at_once : std::max<int64_t>(1, end_text - first_text);
  for (int64_t text = first_text; text < end_text; text += step) {
    const int64_t end = begin_of(std::min(end_text, text + step));
    for (int64_t at = begin_of(text); at + block_size <= end; at += block_size)
      blocks.push_back(at);
  }
  return blocks;
}

}  // namespace convoy::data
