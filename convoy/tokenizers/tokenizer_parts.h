#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/tokenizers/added_tokens.h"
#include "convoy/tokenizers/decoder.h"
#include "convoy/tokenizers/models/model.h"
#include "convoy/tokenizers/models/vocabulary.h"
#include "convoy/tokenizers/normalizer.h"
#include "convoy/tokenizers/post_processor.h"
#include "convoy/tokenizers/pre_tokenizer.h"
#include "convoy/tokenizers/tokenizer.h"

namespace convoy::tokenizers {

/// Parts of a tokenizer.
struct TokenizerParts {
  Vocabulary vocabulary;  ///< with the added tokens
  std::vector<bool> special;
  TokenFinder tokens_of_text;
  TokenFinder tokens_of_normalized;
  std::vector<Normalizer> normalizers;
  PreTokenizers pre_tokenizers;
  std::unique_ptr<Model> model;
  /// Model for the text behind an added token, where that matters.
  std::unique_ptr<Model> model_inside;
  SpecialFrame frame;
  std::vector<Decoder> decoders;
  /// Instead of `decoders`, where the model's library knows better.
  std::function<std::string(std::span<const int32_t>)> decode;
  SpecialIds special_ids;
  int64_t model_max_length = INT64_MAX;
  uint64_t fingerprint = 0;
  std::vector<TokenizerFile> files;
};

/// Finds and reads the files of a tokenizer. Throws FileError.
TokenizerParts load_parts(const std::filesystem::path& path);

Tokenizer make_tokenizer(TokenizerParts parts);

/// Ids of tokens that are added to a vocabulary which lacks them.
enum class AddedIds {
  kAsWritten,
  /// Written ids, of which each must be the next behind the vocabulary: Hugging Face's tokenizers
  /// give a token of tokenizer.json that id whatever the file says.
  kNext,
};

/// Reads parts from the content of a tokenizer.json; `where` names it. Throws FileError.
TokenizerParts parts_of_json(const Json& json, const std::string& where,
                             AddedIds ids = AddedIds::kAsWritten);

/// Changes the content of a tokenizer.json as transformers does when it loads it: by what
/// tokenizer_config.json says to the classes that heed it (BERT's normalizer, GPT-2's blank in
/// front), and by the special tokens that `settings` name. Throws FileError where the two disagree
/// and versions of transformers do, too.
void patch_json(Json& json, const JsonField& config, std::span<const Json> settings);

/// Throws FileError where add_bos_token or add_eos_token of tokenizer_config.json are not what
/// `parts` of a tokenizer.json do, for a class that heeds them.
void check_frame(const JsonField& config, const TokenizerParts& parts);

/// Returns the content of a tokenizer.json that does as `vocab.json` and `merges.txt`, with the
/// settings of `tokenizer_config.json` (null without one). Throws FileError.
Json json_of_merges(std::string_view vocabulary, const std::string& vocabulary_name,
                    std::string_view merges, const std::string& merges_name,
                    const JsonField& config);

/// Content of a tokenizer.json, like json_of_merges(), for BERT's `vocab.txt`.
Json json_of_word_list(std::string_view words, const std::string& name, const JsonField& config);

/// Reads parts from the bytes of a SentencePiece model, through its library. Throws FileError.
TokenizerParts parts_of_sentencepiece(std::string_view bytes, const std::string& where,
                                      const JsonField& config);

/// Adds a list of tokens, as "added_tokens" of tokenizer.json has them, to parts whose vocabulary
/// and normalizers are there. Throws FileError.
void add_tokens(const JsonField& part, TokenizerParts& parts, AddedIds ids = AddedIds::kAsWritten);

/// "added_tokens_decoder" of tokenizer_config.json as such a list. Throws FileError.
Json added_tokens_of(const JsonField& config);

/// Special ids that tokenizer_config.json names. Throws FileError for one that no token has.
void read_special_ids(const JsonField& config, const Vocabulary& vocabulary, SpecialIds& ids);

}  // namespace convoy::tokenizers
