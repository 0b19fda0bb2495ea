#include "convoy/tokenizers/models/word_piece.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/tokenizers/unicode/unicode.h"

namespace convoy::tokenizers {

WordPiece::WordPiece(const Vocabulary& vocabulary, WordPieceOptions options,
                     const std::string& where)
    : options_(std::move(options)), unk_id_(vocabulary.find(options_.unk_token)) {
  if (unk_id_ == Vocabulary::kNone) {
    fail<FileError>("tokenizer", "{}: unk_token '{}' is not in the vocabulary", where,
                    options_.unk_token);
  }
  const std::string_view prefix = options_.continuing_subword_prefix;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.has(id)) continue;
    const std::string_view token = vocabulary.text(id);
    first_.add(token, id);
    if (token.starts_with(prefix)) continuation_.add(token.substr(prefix.size()), id);
  }
}

void WordPiece::encode(std::string_view word, Scratch& /*scratch*/,
                       std::vector<int32_t>& ids) const {
  const auto num_characters = std::count_if(word.begin(), word.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  });
  if (num_characters > options_.max_input_chars_per_word) return ids.push_back(unk_id_);
  const size_t before = ids.size();
  for (size_t begin = 0; begin < word.size();) {
    const Vocabulary& tokens = begin == 0 ? first_ : continuation_;
    size_t end = word.size();
    if (end - begin > tokens.max_length()) {
      end = begin + tokens.max_length();
      while (end > begin && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80) --end;
    }
    int32_t id = Vocabulary::kNone;
    while (end > begin) {
      id = tokens.find(word.substr(begin, end - begin));
      if (id != Vocabulary::kNone) break;
      end = previous_character(word, end);
    }
    if (id == Vocabulary::kNone) {
      ids.resize(before);
      return ids.push_back(unk_id_);
    }
    ids.push_back(id);
    begin = end;
  }
}

}  // namespace convoy::tokenizers
