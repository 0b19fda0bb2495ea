#include "convoy/data/token_file.h"

#include <arrow/api.h>

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/arrow.h"
#include "convoy/data/text_source.h"

namespace convoy::data {
namespace fs = std::filesystem;

namespace {

constexpr int64_t kBatchRows = 4096;

void append_lists(const arrow::Array& array, TokenTexts& out, const fs::path& file) {
  const auto* lists = dynamic_cast<const arrow::ListArray*>(&array);
  const auto* ids =
      lists == nullptr ? nullptr : dynamic_cast<const arrow::Int32Array*>(lists->values().get());
  if (ids == nullptr || lists->null_count() > 0 || ids->null_count() > 0) {
    fail<FileError>("data", "{}: column {} is {}; expected lists of int32 without nulls",
                    file.string(), kIdsColumn, array.type()->ToString());
  }
  for (int64_t row = 0; row < lists->length(); ++row) {
    out.ids->append({ids->raw_values() + lists->value_offset(row),
                     static_cast<size_t>(lists->value_length(row))});
    out.ends.push_back(out.ids->size());
  }
}

/// A file of ids, open.
struct IdsFile {
  std::unique_ptr<parquet::arrow::FileReader> reader;
  int column = 0;
  std::string fingerprint;
  int32_t vocab_size = 0;
};

/// Nothing when the file holds no ids.
std::optional<IdsFile> open_ids(const fs::path& file) {
  if (file.extension() != ".parquet" || !fs::is_regular_file(file)) return std::nullopt;
  IdsFile out{open_parquet(file, kBatchRows)};
  std::shared_ptr<arrow::Schema> schema;
  check_arrow(out.reader->GetSchema(&schema), file);
  out.column = schema->GetFieldIndex(kIdsColumn);
  const auto& metadata = schema->metadata();
  if (out.column < 0 || metadata == nullptr || !metadata->Contains(kTokenizerKey)) {
    return std::nullopt;
  }
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
  return out;
}

TokenTexts read_ids(const IdsFile& from, const fs::path& file, int64_t memory_budget,
                    const ProgressFn& progress) {
  TokenTexts out{std::make_shared<TokenStore>(memory_budget)};
  out.fingerprint = from.fingerprint;
  out.vocab_size = from.vocab_size;
  const int num_groups = from.reader->num_row_groups();
  for (int group = 0; group < num_groups; ++group) {
    std::shared_ptr<arrow::ChunkedArray> values;
    check_arrow(from.reader->RowGroup(group)->Column(from.column)->Read(&values), file);
    for (const auto& chunk : values->chunks()) append_lists(*chunk, out, file);
    if (progress) progress(group + 1, num_groups);
  }
  return out;
}

}  // namespace

std::optional<int32_t> vocab_size_of_ids(const fs::path& file) {
  const auto ids = open_ids(file);
  return ids ? std::optional(ids->vocab_size) : std::nullopt;
}

TokenTexts read_token_texts(const fs::path& file, const std::string& column,
                            const std::optional<text::Tokenizer>& tokenizer, int64_t memory_budget,
                            const ProgressFn& progress) {
  if (const auto ids = open_ids(file)) {
    if (tokenizer && tokenizer->fingerprint() != ids->fingerprint) {
      fail<UsageError>("data",
                       "{} was made with another tokenizer ({}) than this model's ({}); try "
                       "convoy data tokenize with this one",
                       file.string(), ids->fingerprint, tokenizer->fingerprint());
    }
    return read_ids(*ids, file, memory_budget, progress);
  }
  if (!tokenizer) {
    fail<UsageError>(
        "data",
        "{} is text, and there is no tokenizer for it; try --data.tokenizer FOLDER, or "
        "a file of convoy data tokenize",
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
