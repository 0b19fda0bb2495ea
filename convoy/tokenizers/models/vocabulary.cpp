#include "convoy/tokenizers/models/vocabulary.h"

#include <algorithm>
#include <cstring>

#include "convoy/base/random.h"

namespace convoy::tokenizers {

uint64_t hash_bytes(std::string_view bytes) {
  const auto load = [&](size_t at, size_t count) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, count);
    return value;
  };
  const size_t size = bytes.size();
  if (size < 4) {
    if (size == 0) return 0;
    return mix64(load(0, 1) | load(size / 2, 1) << 8 | load(size - 1, 1) << 16 | size << 24);
  }
  if (size <= 8) return mix64((load(0, 4) | load(size - 4, 4) << 32) ^ size << 59);
  uint64_t hash = size;
  for (size_t at = 0; at + 8 < size; at += 8) hash = mix64(hash ^ load(at, 8));
  return mix64(hash ^ load(size - 8, 8));
}

bool Vocabulary::add(std::string_view text, int32_t id) {
  if (has(id)) return false;
  if (slots_.size() < 2 * static_cast<size_t>(num_tokens_ + 1)) grow();
  Slot& slot = slots_[slot_of(text)];
  if (slot.id != kNone) return false;
  if (id >= size()) entries_.resize(id + 1);
  entries_[id] = {bytes_.size(), static_cast<uint32_t>(text.size()), true};
  bytes_ += text;
  slot = {static_cast<uint32_t>(hash_bytes(text) >> 32), id};
  ++num_tokens_;
  max_length_ = std::max(max_length_, text.size());
  return true;
}

void Vocabulary::grow() {
  slots_.assign(std::max<size_t>(64, slots_.size() * 2), {});
  for (int32_t id = 0; id < size(); ++id) {
    if (!entries_[id].used) continue;
    slots_[slot_of(text(id))] = {static_cast<uint32_t>(hash_bytes(text(id)) >> 32), id};
  }
}

}  // namespace convoy::tokenizers
