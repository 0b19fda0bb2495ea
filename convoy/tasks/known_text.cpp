#include "convoy/tasks/known_text.h"

#include <algorithm>

#include "convoy/base/error.h"

namespace convoy::tasks {

std::optional<int32_t> unknown_id(const tokenizers::Tokenizer& tokenizer) {
  const auto& special = tokenizer.special_ids();
  // GPT-2's unknown token ends texts.
  return special.unk == special.eos ? std::nullopt : special.unk;
}

std::optional<int32_t> blank_id(const tokenizers::Tokenizer& tokenizer) {
  return tokenizer.id_of("\u2581");
}

bool is_unknown(const tokenizers::Tokenizer& tokenizer, std::span<const int32_t> ids,
                std::initializer_list<int32_t> apart) {
  const auto unknown = unknown_id(tokenizer);
  if (!unknown || std::find(ids.begin(), ids.end(), *unknown) == ids.end()) return false;
  const auto blank = blank_id(tokenizer);
  return std::none_of(ids.begin(), ids.end(), [&](const int32_t id) {
    return id != *unknown && id != blank &&
           std::find(apart.begin(), apart.end(), id) == apart.end();
  });
}

void check_known(const tokenizers::Tokenizer& tokenizer, std::span<const int32_t> ids,
                 std::initializer_list<int32_t> apart, const std::string& name,
                 const std::string& text) {
  if (!is_unknown(tokenizer, ids, apart)) return;
  fail<UsageError>("data",
                   "{} has only tokens that the tokenizer does not know: '{}'; try the tokenizer "
                   "that belongs to the text's language",
                   name, text.substr(0, 80));
}

}  // namespace convoy::tasks
