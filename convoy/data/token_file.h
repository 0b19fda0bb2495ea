#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/progress.h"
#include "convoy/data/token_store.h"
#include "convoy/tokenizers/tokenizer.h"

namespace convoy::data {

/// Keys of the metadata that a file of ids carries, and its column.
inline constexpr const char* kTokenizerKey = "convoy.tokenizer";   ///< Tokenizer::fingerprint()
inline constexpr const char* kVocabSizeKey = "convoy.vocab_size";  ///< Tokenizer::vocab_size()
inline constexpr const char* kIdsColumn = "input_ids";

/// Ids of some texts, one after the other: 4 bytes a token.
struct TokenTexts {
  std::shared_ptr<TokenStore> ids = std::make_shared<TokenStore>();
  std::vector<int64_t> ends;  ///< of each text in `ids`
  std::string fingerprint;    ///< of the tokenizer; "": a file of ids that does not say it
  int32_t vocab_size = 0;     ///< of the tokenizer; 0: nor that
  int64_t num_malformed = 0;  ///< places that were not UTF-8 and became U+FFFD

  int64_t size() const { return static_cast<int64_t>(ends.size()); }
};

/// Reads ids, or tokenizes texts (read_texts()) with `tokenizer`. Ids are lists of whole numbers in
/// the column that is named of Parquet or Arrow files, and in `input_ids` where there is no column
/// "text"; or a file that map_binary_tokens() maps, which stays where it is, however large.
/// `convoy data tokenize` tells their tokenizer, other tools do not. Of the ids at
/// most `memory_budget` bytes are kept in memory, else all in a file. Throws FileError; UsageError
/// when ids are of another tokenizer, there is none for a text, or masks and labels beside the ids
/// ask for something else than all of them.
TokenTexts read_token_texts(const std::filesystem::path& file, const std::string& column,
                            const std::optional<tokenizers::Tokenizer>& tokenizer,
                            int64_t memory_budget = TokenStore::kNoLimit,
                            const ProgressFn& progress = {});

/// Vocabulary size of the tokenizer that made a file of ids, 0 where the file does not tell; reads
/// nothing else of it. None for another kind of file.
std::optional<int32_t> vocab_size_of_ids(const std::filesystem::path& file,
                                         const std::string& column);

/// Number of texts that `percent` of them are, rounded as Hugging Face's `train[:5%]`: halves to
/// even.
int64_t num_held_out(int64_t num_texts, double percent);

/// Begins of the blocks of ids, each `block_size` long.
///
/// Joins the texts in groups of `texts_at_once` and cuts each group into blocks; the rest of a
/// group is dropped, as Hugging Face's run_clm does with 1,000. 0 joins all.
std::vector<int64_t> cut_blocks(const TokenTexts& texts, int64_t first_text, int64_t end_text,
                                int64_t texts_at_once, int64_t block_size);

}  // namespace convoy::data
