#include "convoy/tokenizers/models/word_level.h"

#include "convoy/base/error.h"

namespace convoy::tokenizers {

WordLevel::WordLevel(const Vocabulary& vocabulary, const std::string& unk_token,
                     const std::string& where)
    : unk_id_(vocabulary.find(unk_token)) {
  if (unk_id_ == Vocabulary::kNone) {
    fail<FileError>("tokenizer", "{}: unk_token '{}' is not in the vocabulary", where, unk_token);
  }
  // Tokens that are added later are cut out of the text before words are looked up.
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.has(id)) words_.add(vocabulary.text(id), id);
  }
}

void WordLevel::encode(std::string_view word, Scratch& /*scratch*/,
                       std::vector<int32_t>& ids) const {
  const int32_t id = words_.find(word);
  ids.push_back(id == Vocabulary::kNone ? unk_id_ : id);
}

}  // namespace convoy::tokenizers
