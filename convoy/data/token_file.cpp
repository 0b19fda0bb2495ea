#include "convoy/data/token_file.h"

#include <arrow/api.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/arrow.h"
#include "convoy/data/arrow_dataset.h"
#include "convoy/data/arrow_types.h"
#include "convoy/data/binary_tokens.h"
#include "convoy/data/parquet_file.h"
#include "convoy/data/table_source.h"
#include "convoy/data/text_source.h"

namespace convoy::data {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kRowsAtOnce = 4096;
// What other tools write beside ids.
constexpr const char* kMaskColumn = "attention_mask";
constexpr const char* kLabelsColumn = "labels";

/// A file of ids, open.
struct IdsFile {
  ParquetFile file;
  std::string column;
  std::vector<std::string> beside;  // of the columns above those that it has
  std::string fingerprint;          // "": the file does not say whose ids they are
  int32_t vocab_size = 0;           // 0: nor how many there are
};

/// Who made the ids, of what `convoy data tokenize` wrote.
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

/// Nothing when the file holds no ids.
std::optional<IdsFile> open_ids(const fs::path& file, const std::string& column) {
  if (!fs::is_regular_file(file) || kind_of_texts(file) != ".parquet") return std::nullopt;
  IdsFile out{ParquetFile(file), column, {}, "", 0};
  read_metadata(file, out);
  const auto& columns = out.file.columns();
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
  const bool named = column != kTextColumn && out.fingerprint.empty();
  if (find(column) == columns.end() && !named) out.column = kIdsColumn;
  if (!holds_ids(out.column)) return std::nullopt;
  for (const char* name : {kMaskColumn, kLabelsColumn}) {
    if (name != out.column && holds_numbers(name)) out.beside.emplace_back(name);
  }
  return out;
}

/// Blocks are cut from ids alone, so every id must be there to be learnt.
void check_beside(const IdsFile& from, const Rows& rows, int64_t first_row) {
  const auto& ids = rows.columns.at(from.column);
  const auto refuse = [&](auto place, auto begin, const std::string& what, const char* expected) {
    const auto row = std::upper_bound(ids.offsets.begin(), ids.offsets.end(), place - begin) -
                     ids.offsets.begin() - 1;
    fail<UsageError>("data", "{}: {} in row {}; expected {}", from.file.path().string(), what,
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
      refuse(wrong, values.begin(), fmt::format("{} differ from {}", name, from.column),
             "the same, for all ids are learnt; try a file without them");
    };
    const auto& column = rows.columns.at(name);
    column.kind == Column::Float32 ? check(column.floats) : check(column.ints);
  }
}

TokenTexts read_ids(const IdsFile& from, int64_t memory_budget, const ProgressFn& progress) {
  TokenTexts out{std::make_shared<TokenStore>(memory_budget)};
  out.fingerprint = from.fingerprint;
  out.vocab_size = from.vocab_size;
  Selection selection;
  selection.columns = {from.column};
  selection.limits[from.column] = {
      INT32_MAX, "try convoy data tokenize, or --column NAME of another column of ids"};
  selection.columns.insert(selection.columns.end(), from.beside.begin(), from.beside.end());
  std::vector<Segment> all;
  for (int64_t group = 0; group < from.file.num_row_groups(); ++group) {
    const int64_t rows = from.file.group_rows()[static_cast<size_t>(group)];
    if (rows > 0) all.push_back({group, 0, rows});
  }
  const auto stream = from.file.stream(all, selection);
  std::vector<int32_t> ids;
  Rows rows;
  for (int64_t done = 0; done < from.file.num_rows(); done += rows.num_rows) {
    rows.clear();
    stream->append(kRowsAtOnce, rows);
    check_beside(from, rows, done);
    const auto& column = rows.columns.at(from.column);
    ids.assign(column.ints.begin(), column.ints.end());
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      out.ends.push_back(out.ids->size() + column.end(row));
    }
    out.ids->append(ids);
    if (progress) progress(done + rows.num_rows, from.file.num_rows());
  }
  return out;
}

bool is_list_of_integers(const arrow::DataType& type) {
  const bool is_list = type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST ||
                       type.id() == arrow::Type::FIXED_SIZE_LIST;
  return is_list && arrow::is_integer(type.field(0)->type()->id());
}

/// Column of ids in Arrow's own files: the one that is named, and `input_ids` where there is no
/// column "text"; -1: they have none.
int ids_column(const ArrowDataset& source, const std::string& column) {
  const auto& schema = source.schema();
  int index = schema.GetFieldIndex(column);
  if (index < 0 && column == kTextColumn) index = schema.GetFieldIndex(kIdsColumn);
  return index >= 0 && is_list_of_integers(*schema.field(index)->type()) ? index : -1;
}

/// Values of the lists of a column, one list after the other.
std::shared_ptr<arrow::Array> values_of(const arrow::Array& column) {
  std::shared_ptr<arrow::Array> out;
  with_type<arrow::ListArray, arrow::LargeListArray, arrow::FixedSizeListArray>(
      column, [&](const auto& lists) {
        const auto begin = lists.value_offset(0);
        out = lists.values()->Slice(begin, lists.value_offset(lists.length()) - begin);
      });
  return out;
}

/// Throws UsageError unless all ids are there to be learnt, as check_beside() does of Parquet
/// files.
void check_beside(const arrow::RecordBatch& rows, int ids, const fs::path& file) {
  const auto refuse = [&](const std::string& what, const char* expected) {
    fail<UsageError>("data", "{}: {}; expected {}", file.string(), what, expected);
  };
  if (const auto mask = rows.GetColumnByName(kMaskColumn)) {
    const auto values = is_list_of_integers(*mask->type()) ? values_of(*mask) : nullptr;
    if (values) {
      with_integers(*values, [&](const auto& all) {
        for (int64_t i = 0; i < all.length(); ++i) {
          if (!all.IsNull(i) && all.Value(i) == 0) {
            refuse(std::string(kMaskColumn) + " is 0 in a row",
                   "ids without padding, for all are learnt; try the ids as they were before it");
          }
        }
      });
    }
  }
  const auto labels = rows.GetColumnByName(kLabelsColumn);
  if (!labels || !is_list_of_integers(*labels->type())) return;
  std::vector<int64_t> one, other;
  for (auto [to, column] : {std::pair(&one, rows.column(ids)), std::pair(&other, labels)}) {
    with_integers(*values_of(*column), [to = to](const auto& all) {
      for (int64_t i = 0; i < all.length(); ++i) to->push_back(static_cast<int64_t>(all.Value(i)));
    });
  }
  if (one != other) {
    refuse(fmt::format("{} differ from the ids in a row", kLabelsColumn),
           "the same, for all ids are learnt; try a file without them");
  }
}

/// Appends the lists of a column; `first`: number of their first row, for messages.
template <class Lists>
void append_lists(const Lists& lists, const fs::path& file, int64_t first, TokenTexts& out) {
  std::vector<int32_t> ids;
  const auto take = [&](const auto& values) {
    for (int64_t row = 0; row < lists.length(); ++row) {
      if (lists.IsNull(row)) {
        fail<FileError>("data", "{}: row {} is null; expected ids; drop such rows or fill them",
                        file.string(), first + row);
      }
      for (auto at = lists.value_offset(row); at < lists.value_offset(row + 1); ++at) {
        const auto id = static_cast<int64_t>(values.Value(at));
        if (values.IsNull(at) || id < 0 || id > INT32_MAX) {
          fail<FileError>("data", "{}: row {} holds {}; expected ids from 0 to {}", file.string(),
                          first + row, values.IsNull(at) ? "null" : std::to_string(id), INT32_MAX);
        }
        ids.push_back(static_cast<int32_t>(id));
      }
      out.ends.push_back(out.ids->size() + std::ssize(ids));
    }
  };
  with_integers(*lists.values(), take);
  out.ids->append(ids);
}

TokenTexts read_arrow_ids(const ArrowDataset& source, int column, const fs::path& file,
                          int64_t memory_budget, const ProgressFn& progress) {
  TokenTexts out{std::make_shared<TokenStore>(memory_budget)};
  int64_t first = 0;
  source.read(
      [&](const arrow::RecordBatch& rows) {
        check_arrow(rows.column(column)->ValidateFull(), file);
        check_beside(rows, column, file);
        with_type<arrow::ListArray, arrow::LargeListArray, arrow::FixedSizeListArray>(
            *rows.column(column),
            [&](const auto& lists) { append_lists(lists, file, first, out); });
        first += rows.num_rows();
      },
      progress);
  return out;
}

/// Ids in a file of another program, if it is one.
std::optional<TokenTexts> read_foreign(const fs::path& file, const std::string& column,
                                       int64_t memory_budget, const ProgressFn& progress) {
  if (auto binary = map_binary_tokens(file)) {
    TokenTexts out{std::make_shared<TokenStore>(binary->ids, std::move(binary->mapped))};
    out.ends = std::move(binary->ends);
    return out;
  }
  if (!ArrowDataset::is_one(file)) return std::nullopt;
  const ArrowDataset source(file);
  const int ids = ids_column(source, column);
  if (ids < 0) return std::nullopt;
  return read_arrow_ids(source, ids, file, memory_budget, progress);
}

/// Throws FileError unless the file is text, for which there is no tokenizer.
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
  if (map_binary_tokens(file)) return 0;
  if (ArrowDataset::is_one(file) && ids_column(ArrowDataset(file), column) >= 0) return 0;
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
