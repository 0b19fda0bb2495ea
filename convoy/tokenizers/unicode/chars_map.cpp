#include "convoy/tokenizers/unicode/chars_map.h"

#include <cstdint>
#include <cstring>

namespace convoy::tokenizers {

namespace {

constexpr uint32_t kLeaf = 1u << 31;
constexpr uint32_t kHasLeaf = 1u << 8;

uint32_t load(std::string_view bytes, size_t at) {
  uint32_t value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// Returns the offset from a unit to its children.
uint32_t offset_of(uint32_t unit) {
  return unit >> 10 << ((unit & 1u << 9) >> 6);
}

}  // namespace

bool CharsMap::is_sound(std::string_view bytes) {
  if (bytes.empty()) return true;
  if (bytes.size() < 4) return false;
  const uint32_t size = load(bytes, 0);
  if (size % 4 != 0 || size < 1024 || size > bytes.size() - 4) return false;
  const std::string_view texts = bytes.substr(4 + size);
  if (texts.empty() || texts.back() != '\0') return false;
  const uint32_t num_units = size / 4;
  const auto unit = [&](uint32_t i) { return load(bytes, 4 + size_t{4} * i); };
  for (uint32_t i = 0; i < num_units; ++i) {
    const uint32_t value = unit(i);
    if (i > 0 && (value & kLeaf) != 0) continue;  // nobody asks what the root is
    const uint32_t next = i ^ offset_of(value);
    if ((next | 255) >= num_units) return false;
    if ((value & kHasLeaf) != 0 && (unit(next) & ~kLeaf) >= texts.size()) return false;
  }
  return true;
}

CharsMap::Rule CharsMap::find(std::string_view text, bool shortest) const {
  if (bytes_.empty()) return {};
  const size_t size = load(bytes_, 0);
  const auto unit = [&](uint32_t i) { return load(bytes_, 4 + size_t{4} * i); };
  size_t length = 0;
  uint32_t value = 0;
  uint32_t node = offset_of(unit(0));
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    const uint32_t here = unit(node);
    if ((here & (kLeaf | 255)) != byte) break;
    node ^= offset_of(here);
    if ((here & kHasLeaf) == 0) continue;
    length = i + 1;
    value = unit(node) & ~kLeaf;
    if (shortest) break;
  }
  if (length == 0) return {};
  return {length, std::string_view(bytes_.data() + 4 + size + value)};
}

}  // namespace convoy::tokenizers
