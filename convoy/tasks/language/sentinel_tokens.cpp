#include "convoy/tasks/language/sentinel_tokens.h"

#include <algorithm>
#include <utility>

#include "convoy/base/text.h"

namespace convoy::tasks {

Sentinels::Sentinels(models::SpanTokens tokens, const tokenizers::Tokenizer* tokenizer,
                     int64_t num_ids)
    : tokens_(std::move(tokens)) {
  while (tokenizer != nullptr) {
    const auto id = tokenizer->id_of(tokens_.name(std::ssize(ids_)));
    if (!id) break;
    ids_.push_back(*id);
  }
  own_ = !ids_.empty();
  if (own_) return;
  // A model's table may have more rows than there are ids: T5's 32,000 pieces and 100 sentinels
  // lie in one of 32,128.
  const int64_t end =
      tokenizer != nullptr ? std::min(num_ids, tokenizer->vocab_size() + tokens_.usual) : num_ids;
  const int64_t first = tokenizer != nullptr ? tokenizer->vocab_size() : num_ids - tokens_.usual;
  for (int64_t id = end - 1; id >= std::max<int64_t>(0, first); --id) ids_.push_back(id);
}

/// Number of the sentinel whose name begins at `at`, or -1.
int64_t Sentinels::number_at(std::string_view text, size_t at) const {
  const auto first = at + tokens_.begin.size(), end = text.find(tokens_.end, first);
  int64_t number = -1;
  if (end == std::string_view::npos || !parse_number(text.substr(first, end - first), number)) {
    return -1;
  }
  const auto name = text.substr(at, end + tokens_.end.size() - at);
  return name == tokens_.name(number) ? number : -1;  // no 01, no +1
}

std::vector<int32_t> Sentinels::encode(const tokenizers::Tokenizer& tokenizer,
                                       const std::string& text) const {
  std::vector<int32_t> ids;
  if (own_ || ids_.empty()) {
    tokenizer.encode(text, ids);
    return ids;
  }
  size_t from = 0;  // what is behind the last sentinel
  const auto& begin = tokens_.begin;
  for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at + 1)) {
    const auto number = number_at(text, at);
    if (number < 0 || number >= std::ssize(ids_)) continue;
    tokenizer.encode(text.substr(from, at - from), ids, /*add_special_tokens=*/false);
    ids.push_back(static_cast<int32_t>(ids_[static_cast<size_t>(number)]));
    from = at + tokens_.name(number).size();
  }
  if (from == 0) {
    tokenizer.encode(text, ids);
    return ids;
  }
  tokenizer.encode(text.substr(from), ids, /*add_special_tokens=*/false);
  return ids;
}

std::string Sentinels::decode(const tokenizers::Tokenizer& tokenizer,
                              const std::vector<int32_t>& ids) const {
  std::string text;
  std::vector<int32_t> part;
  const auto end_part = [&] {
    text += tokenizer.decode(part);
    part.clear();
  };
  for (const int32_t id : ids) {
    const auto found = std::find(ids_.begin(), ids_.end(), id);
    if (found == ids_.end()) {
      part.push_back(id);
      continue;
    }
    end_part();
    if (!text.empty()) text += " ";
    text += tokens_.name(found - ids_.begin()) + " ";
  }
  end_part();
  return text;
}

}  // namespace convoy::tasks
