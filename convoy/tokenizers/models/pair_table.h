#pragma once

#include <cstdint>
#include <vector>

#include "convoy/base/random.h"

namespace convoy::tokenizers {

/// Result of merging a pair of neighbouring ids, and its rank.
struct Merge {
  static constexpr uint32_t kNever = UINT32_MAX;
  uint32_t rank = kNever;  ///< the lower the earlier
  int32_t id = 0;
};

/// Merges by pair of ids: open addressing, 16 bytes a place.
class PairTable {
 public:
  explicit PairTable(size_t num_pairs = 0) {
    size_t places = 16;
    while (places < 2 * num_pairs) places *= 2;
    slots_.resize(places);
  }

  /// A pair that is there already takes the new merge.
  void set(int32_t left, int32_t right, Merge merge) {
    slots_[slot_of(key(left, right))] = {key(left, right), merge};
  }
  Merge find(int32_t left, int32_t right) const { return slots_[slot_of(key(left, right))].merge; }

 private:
  struct Slot {
    uint64_t key = UINT64_MAX;
    Merge merge;
  };

  static uint64_t key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const {
    size_t at = mix64(key) & (slots_.size() - 1);
    while (slots_[at].key != key && slots_[at].key != UINT64_MAX)
      at = (at + 1) & (slots_.size() - 1);
    return at;
  }

  std::vector<Slot> slots_;
};

}  // namespace convoy::tokenizers
