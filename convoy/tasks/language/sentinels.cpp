#include "convoy/tasks/language/sentinels.h"

#include <fmt/format.h>

#include <algorithm>

namespace convoy::tasks {

namespace {

std::string name_of(size_t number) {
  return fmt::format("<extra_id_{}>", number);
}

}  // namespace

Sentinels::Sentinels(const text::Tokenizer* tokenizer, int64_t num_ids) {
  while (tokenizer != nullptr) {
    const auto id = tokenizer->id_of(name_of(ids_.size()));
    if (!id) break;
    ids_.push_back(*id);
  }
  own_ = !ids_.empty();
  const int64_t taken = tokenizer != nullptr ? tokenizer->vocab_size() : num_ids - kUsual;
  for (int64_t id = num_ids - 1; !own_ && id >= std::max(taken, num_ids - kUsual); --id) {
    ids_.push_back(id);
  }
}

std::vector<int32_t> Sentinels::encode(const text::Tokenizer& tokenizer,
                                       const std::string& text) const {
  std::vector<int32_t> ids;
  if (own_ || ids_.empty()) {
    tokenizer.encode(text, ids);
    return ids;
  }
  size_t from = 0;
  for (size_t number = 0; number < ids_.size(); ++number) {
    const auto name = name_of(number);
    const auto at = text.find(name, from);
    if (at == std::string::npos) break;
    tokenizer.encode(text.substr(from, at - from), ids, /*add_special_tokens=*/false);
    ids.push_back(static_cast<int32_t>(ids_[number]));
    from = at + name.size();
  }
  if (from == 0) {
    tokenizer.encode(text, ids);
    return ids;
  }
  tokenizer.encode(text.substr(from), ids, /*add_special_tokens=*/false);
  return ids;
}

std::string Sentinels::decode(const text::Tokenizer& tokenizer,
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
    text += name_of(static_cast<size_t>(found - ids_.begin())) + " ";
  }
  end_part();
  return text;
}

}  // namespace convoy::tasks
