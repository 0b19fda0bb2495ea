#include "convoy/tasks/known_text.h"

#include <algorithm>

#include "convoy/base/error.h"

namespace convoy::tasks {

void check_known(const text::Tokenizer& tokenizer, std::span<const int32_t> ids,
                 std::initializer_list<int32_t> apart, const std::string& name,
                 const std::string& text) {
  const auto& special = tokenizer.special_ids();
  // GPT-2's unknown token ends texts, and no text is unknown to it.
  if (!special.unk || special.unk == special.eos) return;
  const auto says_something = [&](const int32_t id) {
    return id != *special.unk && std::find(apart.begin(), apart.end(), id) == apart.end();
  };
  if (std::find(ids.begin(), ids.end(), *special.unk) == ids.end()) return;
  if (std::any_of(ids.begin(), ids.end(), says_something)) return;
  fail<UsageError>("data",
                   "{} has only tokens that the tokenizer does not know: '{}'; try the tokenizer "
                   "that belongs to the text's language",
                   name, text.substr(0, 80));
}

}  // namespace convoy::tasks
