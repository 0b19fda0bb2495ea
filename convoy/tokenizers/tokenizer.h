#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace convoy::tokenizers {

struct TokenizerParts;

/// Ids of tokens with a task, where the files name them.
struct SpecialIds {
  std::optional<int32_t> bos;
  std::optional<int32_t> eos;
  std::optional<int32_t> pad;
  std::optional<int32_t> unk;
};

/// Bytes [begin, end) of a text that a token stands for.
struct TokenSpan {
  size_t begin = 0, end = 0;
  bool operator==(const TokenSpan&) const = default;
};

/// A file of a tokenizer.
struct TokenizerFile {
  std::filesystem::path path;
  /// File name that load() finds in a folder: "tokenizer.json" for "my_own.json".
  std::string name = path.filename().string();
};

/// Turns text into ids and back, as Hugging Face's tokenizers do with the same files. A value that
/// never changes: copies are cheap, and threads may share one.
class Tokenizer {
 public:
  /// Reads a folder or one of its files: `tokenizer.json`; a SentencePiece `*.model`; `vocab.json`
  /// with `merges.txt`; `vocab.txt`. A `tokenizer_config.json` beside them tells special tokens, it
  /// or an `added_tokens.json` those that were added to a vocabulary of the last three kinds.
  /// Throws FileError that names file, key and value: missing, damaged, or not supported.
  static Tokenizer load(const std::filesystem::path& path);

  /// Appends the ids of a text. Bytes that are not UTF-8 count as U+FFFD; returns how many such
  /// places there were. Throws UsageError for a text that a regular expression gives up on.
  size_t encode(std::string_view text, std::vector<int32_t>& ids,
                bool add_special_tokens = true) const;

  /// Encodes UTF-8 like encode() without special tokens. `spans`: one for each id, as `tokenizers`
  /// has offsets before its trim_offsets. A part of a character stands for all of it. Throws
  /// UsageError as encode() and check_tells_spans().
  void encode_with_spans(std::string_view text, std::vector<int32_t>& ids,
                         std::vector<TokenSpan>& spans) const;
  /// Throws UsageError, naming the part, where it is not known what tokens stand for: of any model
  /// but BPE, and of normalizers other than NFC, Prepend and Replace.
  void check_tells_spans() const;

  /// Returns the text of ids. Throws UsageError for an id that no token has.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens = true) const;

  /// One more than the largest id: rows that a model's table of tokens needs.
  int32_t vocab_size() const;
  /// Whether a token has the id: there may be gaps.
  bool has(int32_t id) const;
  /// Whether decode() leaves the token out where it skips special ones.
  bool is_special(int32_t id) const;
  std::optional<int32_t> id_of(std::string_view token) const;
  /// Text of a token in the files. Throws UsageError for an id that no token has.
  std::string token(int32_t id) const;
  const SpecialIds& special_ids() const;
  /// Largest number of tokens in a text of its model; INT64_MAX where no file says it.
  int64_t model_max_length() const;

  /// 16 hexadecimal digits that differ between tokenizers which give other ids.
  const std::string& fingerprint() const;
  /// Returns the files that make it up, to be kept beside a model.
  const std::vector<TokenizerFile>& files() const;

 private:
  struct Impl;
  friend Tokenizer make_tokenizer(TokenizerParts parts);
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

/// Whether Tokenizer::load() finds a tokenizer in a folder.
bool holds_tokenizer(const std::filesystem::path& folder);

/// Returns the names that files of tokenizers have in a folder: whoever opens one looks for these.
std::vector<std::string> tokenizer_file_names();

}  // namespace convoy::tokenizers
