#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace convoy::tokenizers {

/// Texts by their beginnings, a byte at a time: a double array (Aoe, 1989).
class Trie {
 public:
  static constexpr int32_t kNone = -1;

  Trie() = default;
  /// Builds a trie; of equal texts the last counts; values must not be negative.
  explicit Trie(std::vector<std::pair<std::string_view, int32_t>> texts);

  /// Root, where a walk begins.
  static constexpr uint32_t kRoot = 0;
  /// Moves `node` along a byte; false when no text continues with it.
  bool step(uint32_t& node, unsigned char byte) const {
    const uint32_t next = units_[node].base + byte;
    if (units_[next].parent != node + 1) return false;
    node = next;
    return true;
  }
  /// Value of the text that ends here, or kNone.
  int32_t value(uint32_t node) const { return units_[node].value; }

  /// Bytes of the longest text that `text` begins with; 0 = none.
  size_t longest(std::string_view text) const;

 private:
  struct Unit {
    uint32_t base = 0;    // the child by a byte lies so far from there
    uint32_t parent = 0;  // one more than its place; 0: free
    int32_t value = kNone;
  };
  uint32_t find_base(const std::vector<unsigned char>& bytes);

  static constexpr size_t kLeast = 257;  // the root, and a child by every byte

  std::vector<Unit> units_ = std::vector<Unit>(kLeast);
  size_t first_free_ = 1;  // about
};

}  // namespace convoy::tokenizers
