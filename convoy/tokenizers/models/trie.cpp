#include "convoy/tokenizers/models/trie.h"

#include <algorithm>
#include <deque>

namespace convoy::tokenizers {

Trie::Trie(std::vector<std::pair<std::string_view, int32_t>> texts) {
  std::erase_if(texts, [](const auto& text) { return text.first.empty(); });
  std::stable_sort(texts.begin(), texts.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {
    uint32_t node;
    size_t begin, end, depth;
  };
  std::deque<Range> open{{kRoot, 0, texts.size(), 0}};
  std::vector<unsigned char> bytes;
  std::vector<size_t> begins;
  for (; !open.empty(); open.pop_front()) {
    auto [node, begin, end, depth] = open.front();
    while (begin < end && texts[begin].first.size() == depth) {
      units_[node].value = texts[begin++].second;
    }
    bytes.clear();
    begins.clear();
    for (size_t i = begin; i < end; ++i) {
      const auto byte = static_cast<unsigned char>(texts[i].first[depth]);
      if (!bytes.empty() && bytes.back() == byte) continue;
      bytes.push_back(byte);
      begins.push_back(i);
    }
    if (bytes.empty()) continue;
    begins.push_back(end);
    const uint32_t base = find_base(bytes);
    units_[node].base = base;
    for (size_t i = 0; i < bytes.size(); ++i) {
      units_[base + bytes[i]].parent = node + 1;
      open.push_back({base + bytes[i], begins[i], begins[i + 1], depth + 1});
    }
  }
}

/// Finds an index for the children of these bytes, which are ascending.
uint32_t Trie::find_base(const std::vector<unsigned char>& bytes) {
  const auto is_free = [&](size_t at) { return units_[at].parent == 0; };
  size_t taken = 0, looked = 0;
  for (size_t at = std::max<size_t>(first_free_, size_t{bytes[0]} + 1);; ++at, ++looked) {
    const size_t base = at - bytes[0];
    if (base + 256 >= units_.size()) units_.resize(2 * units_.size() + 256);
    if (!is_free(at)) {
      ++taken;
      continue;
    }
    if (!std::all_of(bytes.begin(), bytes.end(), [&](auto byte) { return is_free(base + byte); })) {
      continue;
    }
    constexpr size_t kWorthLooking = 20;  // where one place in so many is free
    if (looked * (kWorthLooking - 1) < taken * kWorthLooking) first_free_ = at;
    return static_cast<uint32_t>(base);
  }
}

size_t Trie::longest(std::string_view text) const {
  size_t found = 0;
  uint32_t node = kRoot;
  for (size_t i = 0; i < text.size() && step(node, static_cast<unsigned char>(text[i])); ++i) {
    if (value(node) != kNone) found = i + 1;
  }
  return found;
}

}  // namespace convoy::tokenizers
