#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convoy/tokenizers/models/model.h"
#include "convoy/tokenizers/models/vocabulary.h"

namespace convoy::tokenizers {

/// Model whose tokens are whole words: a word that the vocabulary lacks is unknown.
class WordLevel : public Model {
 public:
  /// Throws FileError, with `where`, when the unknown token is not in the vocabulary.
  WordLevel(const Vocabulary& vocabulary, const std::string& unk_token, const std::string& where);

  void encode(std::string_view word, Scratch& scratch, std::vector<int32_t>& ids) const override;

 private:
  Vocabulary words_;
  int32_t unk_id_;
};

}  // namespace convoy::tokenizers
