#include "convoy/tokenizers/models/model.h"

#include <algorithm>

#include "convoy/base/error.h"

namespace convoy::tokenizers {

void Model::lengths(std::string_view /*word*/, std::span<const int32_t> /*ids*/,
                    std::vector<size_t>& /*lengths*/) const {
  internal_check(false, "tokenizer", "this model does not tell which bytes its tokens stand for");
}

void encode_cached(const Model& model, std::string_view word, Scratch& scratch,
                   std::vector<int32_t>& ids) {
  if (word.size() > WordCache::kMaxBytes) return model.encode(word, scratch, ids);
  WordCache::Entry& entry = scratch.cache.place(word);
  if (WordCache::holds(entry, word)) {
    ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.num_ids);
    return;
  }
  const size_t before = ids.size();
  model.encode(word, scratch, ids);
  const size_t count = ids.size() - before;
  if (count > WordCache::kMaxIds) return;
  entry.length = static_cast<uint8_t>(word.size());
  entry.num_ids = static_cast<uint8_t>(count);
  std::copy(word.begin(), word.end(), entry.word.begin());
  std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), entry.ids.begin());
}

}  // namespace convoy::tokenizers
