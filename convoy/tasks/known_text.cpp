#include "convoy/tasks/known_text.h"

#include <algorithm>

#include "convoy/base/error.h"

namespace convoy::tasks {

bool is_unknown(const text::Tokenizer& tokenizer, std::span<const int32_t> ids,
                std::initializer_list<int32_t> apart) {
  const auto& special = tokenizer.special_ids();
  // GPT-2's unknown token ends texts, and no text is unknown to it.
  if (!special.unk || special.unk == special.eos) return false;
  if (std::find(ids.begin(), ids.end(), *special.unk) == ids.end()) return false;
  const auto blank = tokenizer.id_of("\u2581");  // SentencePiece's, in front of a word
  return std::none_of(ids.begin(), ids.end(), [&](const int32_t id) {
    return id != *special.unk && id != blank &&
           std::find(apart.begin(), apart.end(), id) == apart.end();
  });
}

void check_known(const text::Tokenizer& tokenizer, std::span<const int32_t> ids,
                 std::initializer_list<int32_t> apart, const std::string& name,
                 const std::string& text) {
  if (!is_unknown(tokenizer, ids, apart)) return;
  fail<UsageError>("data",
                   "{} has only tokens that the tokenizer does not know: '{}'; try the tokenizer "
                   "that belongs to the text's language",
                   name, text.substr(0, 80));
}

}  // namespace convoy::tasks
