#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convoy/tokenizers/models/model.h"
#include "convoy/tokenizers/models/pair_table.h"
#include "convoy/tokenizers/models/vocabulary.h"

namespace convoy::tokenizers {

struct BpeOptions {
  bool byte_level = false;     ///< words are bytes, tokens are written in GPT-2's alphabet
  bool byte_fallback = false;  ///< unknown characters become tokens <0x00> to <0xFF>
  bool ignore_merges = false;  ///< a word that is a token stays whole
  bool fuse_unk = false;       ///< neighbouring unknown characters become one unknown token
  std::string unk_token;       ///< "": unknown characters vanish
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
};

/// Byte-pair encoding: merges the pair of neighbours that was learnt first, the leftmost of equals,
/// until no pair is left (Sennrich et al. 2016; as Hugging Face's `BPE`).
class Bpe : public Model {
 public:
  /// `merges`: pairs of texts, first learnt first. Throws FileError, with `where`, for a merge
  /// whose parts or result are no tokens.
  Bpe(const Vocabulary& vocabulary, const std::vector<std::pair<std::string, std::string>>& merges,
      BpeOptions options, const std::string& where);

  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const override;
  bool tells_lengths() const override;
  void lengths(std::string_view word, std::span<const int32_t> ids,
               std::vector<size_t>& lengths) const override;

 private:
  /// Returns the end of the character, or byte, at `at` of a word, and whether a token stands for
  /// it alone.
  std::pair<size_t, bool> symbol_at(std::string_view word, size_t at) const;
  void split_bytes(std::string_view word, std::vector<int32_t>& symbols) const;
  void split_characters(std::string_view word, std::vector<int32_t>& symbols) const;
  void merge_short(std::vector<int32_t>& symbols, size_t from) const;
  void merge_long(std::vector<int32_t>& symbols, size_t from, Scratch& scratch) const;

  BpeOptions options_;
  Vocabulary tokens_;  // by what encode() sees: bytes or characters
  PairTable merges_;
  std::array<int32_t, 256> byte_ids_;  // of single bytes, or of <0x00> to <0xFF>
  int32_t unk_id_ = Vocabulary::kNone;
};

}  // namespace convoy::tokenizers
