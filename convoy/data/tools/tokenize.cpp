#include "convoy/data/tools/tokenize.h"

#include <arrow/api.h>

#include <deque>
#include <future>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/piped_input.h"
#include "convoy/data/parquet_writer.h"
#include "convoy/data/text_source.h"
#include "convoy/data/token_file.h"
#include "convoy/machine/cores.h"
#include "convoy/tokenizers/tokenizer.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRowGroupTokens = 1 << 20;

/// Ids of a batch.
struct Encoded {
  std::vector<int32_t> ids;
  std::vector<int32_t> offsets{0};
  int64_t num_bytes = 0;
  int64_t num_malformed = 0;
};

Encoded encode(const tokenizers::Tokenizer& tokenizer, const TextBatch& batch,
               const TokenizeOptions& options) {
  Encoded encoded;
  encoded.num_bytes = static_cast<int64_t>(batch.bytes.size());
  encoded.num_malformed = batch.num_malformed;
  for (int64_t i = 0; i < batch.size(); ++i) {
    const size_t malformed =
        tokenizer.encode(batch.text(i), encoded.ids, options.add_special_tokens);
    encoded.num_malformed += static_cast<int64_t>(malformed);
    if (options.strict && encoded.num_malformed > 0) {
      fail<FileError>("prepare",
                      "{} has bytes that are not UTF-8, at text {} or before; expected UTF-8, as "
                      "--strict asks; try iconv, or without --strict",
                      batch.file.string(), batch.first + i);
    }
    if (encoded.ids.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
      fail<FileError>("prepare", "text {} of {} is too long: {} tokens", batch.first + i,
                      batch.file.string(), encoded.ids.size());
    }
    encoded.offsets.push_back(static_cast<int32_t>(encoded.ids.size()));
  }
  return encoded;
}

/// Writes batches, in row groups of a million tokens or a little more.
class TokenWriter {
 public:
  TokenWriter(const fs::path& file, const fs::path& shown, const tokenizers::Tokenizer& tokenizer)
      : schema_(arrow::schema({arrow::field(kIdsColumn, arrow::list(arrow::int32()), false)},
                              arrow::key_value_metadata({kTokenizerKey, kVocabSizeKey},
                                                        {tokenizer.fingerprint(),
                                                         std::to_string(tokenizer.vocab_size())}))),
        writer_(file, shown, schema_) {}

  void write(const Encoded& encoded, TokenizeReport& report) {
    const auto num_rows = static_cast<int64_t>(encoded.offsets.size()) - 1;
    auto ids = std::make_shared<arrow::Int32Array>(static_cast<int64_t>(encoded.ids.size()),
                                                   arrow::Buffer::Wrap(encoded.ids));
    auto rows = std::make_shared<arrow::ListArray>(schema_->field(0)->type(), num_rows,
                                                   arrow::Buffer::Wrap(encoded.offsets), ids);
    if (group_tokens_ >= kRowGroupTokens || report.num_row_groups == 0) {
      writer_.begin_row_group();
      ++report.num_row_groups;
      group_tokens_ = 0;
    }
    writer_.write(*arrow::RecordBatch::Make(schema_, num_rows, {rows}));
    group_tokens_ += ids->length();
    report.num_texts += num_rows;
    report.num_tokens += ids->length();
    report.num_bytes += encoded.num_bytes;
    report.num_malformed += encoded.num_malformed;
  }
  void close() { writer_.close(); }

 private:
  std::shared_ptr<arrow::Schema> schema_;
  ParquetWriter writer_;
  int64_t group_tokens_ = 0;
};

int64_t bytes_of(const std::vector<fs::path>& files) {
  int64_t bytes = 0;
  for (const fs::path& file : files) {
    std::error_code code;
    const auto size = fs::file_size(file, code);
    if (!code) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

}  // namespace

TokenizeReport tokenize(const TokenizeOptions& options, const ProgressFn& progress) {
  if (options.threads < 0) {
    fail<UsageError>("prepare", "--threads is {}; expected 1 or more, or 0 for all cores",
                     options.threads);
  }
  check_keeps_inputs("prepare", options.output, {options.inputs.begin(), options.inputs.end()});
  const tokenizers::Tokenizer tokenizer = tokenizers::Tokenizer::load(options.tokenizer);
  TokenizeReport report;
  report.fingerprint = tokenizer.fingerprint();
  report.vocab_size = tokenizer.vocab_size();
  const size_t num_threads = options.threads > 0 ? static_cast<size_t>(options.threads)
                                                 : static_cast<size_t>(machine::usable_cores());
  AtomicFile output(options.output);
  TokenWriter writer(output.temporary(), options.output, tokenizer);
  std::deque<std::future<Encoded>> waiting;
  const auto write_first = [&] {
    writer.write(waiting.front().get(), report);
    waiting.pop_front();
  };
  std::vector<fs::path> inputs;
  for (const fs::path& input : options.inputs) inputs.emplace_back(lasting_input(input.string()));
  const int64_t total = bytes_of(inputs);
  int64_t before = 0;
  for (const fs::path& input : inputs) {
    read_texts(
        input, options.column,
        [&](TextBatch batch) {
          if (waiting.size() >= num_threads) write_first();
          waiting.push_back(
              std::async(std::launch::async, [&tokenizer, &options, batch = std::move(batch)] {
                return encode(tokenizer, batch, options);
              }));
        },
        [&](int64_t done, int64_t) {
          if (progress) progress(before + done, total);
        });
    before += bytes_of({input});
  }
  while (!waiting.empty()) write_first();
  if (report.num_texts == 0) {
    fail<FileError>("prepare", "{} holds no text; expected at least one",
                    options.inputs.empty() ? "nothing" : options.inputs[0].string());
  }
  writer.close();
  output.commit();
  return report;
}

}  // namespace convoy::data
