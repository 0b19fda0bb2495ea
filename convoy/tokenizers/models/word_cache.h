#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "convoy/tokenizers/models/vocabulary.h"

namespace convoy::tokenizers {

/// Ids of words seen before, at most one word per place: a short word's entry fills a cache
/// line and nothing is ever allocated for it.
class WordCache {
 public:
  static constexpr size_t kMaxBytes = 22;
  static constexpr size_t kMaxIds = 10;

  struct Entry {
    uint8_t length = 0;  ///< of the word; 0: free
    uint8_t num_ids = 0;
    std::array<char, kMaxBytes> word;
    std::array<int32_t, kMaxIds> ids;
  };

  /// Entry of the word, or the place for it. The word must have 1 to kMaxBytes bytes.
  Entry& place(std::string_view word) {
    if (!entries_) entries_.reset(new Entry[kPlaces]);
    return entries_[hash_bytes(word) & (kPlaces - 1)];
  }
  static bool holds(const Entry& entry, std::string_view word) {
    return entry.length == word.size() &&
           std::memcmp(entry.word.data(), word.data(), word.size()) == 0;
  }

 private:
  static constexpr size_t kPlaces = 1 << 15;
  std::unique_ptr<Entry[]> entries_;
};

}  // namespace convoy::tokenizers
