#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convoy/tokenizers/models/model.h"
#include "convoy/tokenizers/models/trie.h"
#include "convoy/tokenizers/models/vocabulary.h"

namespace convoy::tokenizers {

struct UnigramPiece {
  enum class Kind { Normal, UserDefined, Other };
  std::string_view text;     ///< read by the constructor only
  double score = 0;          ///< logarithm of its probability
  Kind kind = Kind::Normal;  ///< Other: not for text
};

struct UnigramOptions {
  int32_t unk_id = 0;
  bool byte_fallback = false;  ///< unknown characters become tokens <0x00> to <0xFF>
  /// Adds scores in fp32 as SentencePiece does, else in double precision as `tokenizers` do: they
  /// differ where two ways are almost equally likely.
  bool single_precision = false;
};

/// Model that cuts a word into pieces in the most likely way (Kudo, "Subword regularization",
/// 2018), by Viterbi's algorithm; of equally likely ways the one that SentencePiece 0.2 takes.
/// Neighbouring unknown characters are one unknown token.
class Unigram : public Model {
 public:
  /// pieces[id]; `vocabulary` tells the tokens of single bytes. Throws FileError, with `where`, for
  /// byte_fallback without all of these.
  Unigram(const std::vector<UnigramPiece>& pieces, const Vocabulary& vocabulary,
          UnigramOptions options, const std::string& where);

  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const override;

 private:
  template <class Score>
  void search(std::string_view word, std::vector<uint64_t>& scores,
              std::vector<uint64_t>& steps) const;
  double score_of(int32_t id, size_t length) const;
  void append(std::string_view word, const std::vector<uint64_t>& path,
              std::vector<int32_t>& ids) const;

  UnigramOptions options_;
  Trie trie_;
  std::vector<double> scores_;
  std::vector<bool> user_defined_;
  double unk_score_ = 0;
  int32_t byte_ids_[256];
};

}  // namespace convoy::tokenizers
