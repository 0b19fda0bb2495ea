#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace convoy::tokenizers {

/// A hash of a short stretch of bytes; differs between processors.
uint64_t hash_bytes(std::string_view bytes);

/// Tokens by text and texts by id. Ids may have gaps.
class Vocabulary {
 public:
  static constexpr int32_t kNone = -1;
  /// One more than the largest id that is accepted: a wrong one must not take all memory.
  static constexpr int64_t kMaxSize = 1 << 24;

  /// Returns false when the text or the id is there already.
  bool add(std::string_view text, int32_t id);

  int32_t find(std::string_view text) const {
    if (slots_.empty()) return kNone;
    return slots_[slot_of(text)].id;
  }
  bool has(int64_t id) const {
    return id >= 0 && id < static_cast<int64_t>(entries_.size()) && entries_[id].used;
  }
  /// Returns the text of an id that has one.
  std::string_view text(int32_t id) const {
    return std::string_view(bytes_).substr(entries_[id].begin, entries_[id].length);
  }
  /// One more than the largest id.
  int32_t size() const { return static_cast<int32_t>(entries_.size()); }
  int32_t num_tokens() const { return num_tokens_; }
  /// Bytes of the longest text.
  size_t max_length() const { return max_length_; }

 private:
  struct Entry {
    size_t begin = 0;
    uint32_t length = 0;
    bool used = false;
  };
  struct Slot {
    uint32_t tag = 0;
    int32_t id = kNone;
  };

  /// Returns the slot that holds the text, or the empty one where it belongs.
  size_t slot_of(std::string_view text) const {
    const uint64_t hash = hash_bytes(text);
    const auto tag = static_cast<uint32_t>(hash >> 32);
    size_t at = hash & (slots_.size() - 1);
    while (slots_[at].id != kNone && (slots_[at].tag != tag || this->text(slots_[at].id) != text)) {
      at = (at + 1) & (slots_.size() - 1);
    }
    return at;
  }
  void grow();

  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;
  int32_t num_tokens_ = 0;
  size_t max_length_ = 0;
};

}  // namespace convoy::tokenizers
