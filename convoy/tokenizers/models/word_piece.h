#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convoy/tokenizers/models/model.h"
#include "convoy/tokenizers/models/vocabulary.h"

namespace convoy::tokenizers {

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_subword_prefix = "##";
  int64_t max_input_chars_per_word = 100;
};

/// BERT's model: the longest token that the word begins with, then the longest that goes on; a word
/// that cannot be spelled so is unknown.
class WordPiece : public Model {
 public:
  /// Throws FileError, with `where`, when the unknown token is not in the vocabulary.
  WordPiece(const Vocabulary& vocabulary, WordPieceOptions options, const std::string& where);

  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const override;

 private:
  WordPieceOptions options_;
  Vocabulary first_;         // tokens as a word begins
  Vocabulary continuation_;  // tokens with the prefix, without it
  int32_t unk_id_;
};

}  // namespace convoy::tokenizers
