#include "convoy/tokenizers/unicode/unicode.h"

#include <algorithm>
#include <iterator>

namespace convoy::tokenizers {

namespace {

struct Range {
  char32_t first, last;
};

template <size_t N>
bool is_in(const Range (&ranges)[N], char32_t c) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [c](const Range& range) { return c >= range.first && c <= range.last; });
}

// Characters that tokenizers 0.23 joins to a letter beside Unicode 16's marks, and marks that it
// does not join.
constexpr Range kJoining[] = {{0xE33, 0xE33},     {0xEB3, 0xEB3},     {0x1ACF, 0x1ADD},
                              {0x1AE0, 0x1AEB},   {0x200C, 0x200D},   {0xFF9E, 0xFF9F},
                              {0x10EFA, 0x10EFB}, {0x11B60, 0x11B67}, {0x1E6E3, 0x1E6E3},
                              {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF}, {0x1E6F5, 0x1E6F5},
                              {0x1F3FB, 0x1F3FF}, {0xE0020, 0xE007F}};
constexpr Range kSeparate[] = {
    {0x102B, 0x102C}, {0x1038, 0x1038}, {0x1062, 0x1064},  {0x1067, 0x106D}, {0x1083, 0x1083},
    {0x1087, 0x108C}, {0x108F, 0x108F}, {0x109A, 0x109C},  {0x1A61, 0x1A61}, {0x1A63, 0x1A64},
    {0xAA7B, 0xAA7B}, {0xAA7D, 0xAA7D}, {0x11720, 0x11721}};
// Characters that join to the one that follows.
constexpr Range kPrepended[] = {{0x600, 0x605},     {0x6DD, 0x6DD},     {0x70F, 0x70F},
                                {0x890, 0x891},     {0x8E2, 0x8E2},     {0xD4E, 0xD4E},
                                {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x111C2, 0x111C3},
                                {0x113D1, 0x113D1}, {0x1193F, 0x1193F}, {0x11941, 0x11941},
                                {0x11A84, 0x11A89}, {0x11D46, 0x11D46}, {0x11F02, 0x11F02}};

bool joins(char32_t c) {
  if (c < 0x300) return false;
  const Category kind = Characters::get().category(c);
  const bool mark = kind == Mn || kind == Mc || kind == Me;
  return mark ? !is_in(kSeparate, c) : is_in(kJoining, c);
}

bool is_prepended(char32_t c) {
  return c >= 0x600 && is_in(kPrepended, c);
}

bool is_control(char32_t c) {
  if (c >= 0x20 && c < 0x7F) return false;
  const Category kind = Characters::get().category(c);
  if (kind == Cf) return c != 0x200C && c != 0x200D && !is_prepended(c) && !is_in(kJoining, c);
  return kind == Cc || kind == Zl || kind == Zp || c == 0x2065 || (c >= 0xFFF0 && c <= 0xFFF8);
}

enum Syllable { kNone, kL, kV, kT, kLV, kLVT };

Syllable syllable(char32_t c) {
  if (c < 0x1100 || c > 0xD7FB) return kNone;
  if (c <= 0x115F || (c >= 0xA960 && c <= 0xA97C)) return kL;
  if (c <= 0x11A7 || (c >= 0xD7B0 && c <= 0xD7C6)) return kV;
  if (c <= 0x11FF || c >= 0xD7CB) return kT;
  if (c >= 0xAC00 && c <= 0xD7A3) return (c - 0xAC00) % 28 == 0 ? kLV : kLVT;
  return kNone;
}

bool makes_syllable(char32_t before, char32_t c) {
  const Syllable left = syllable(before), right = syllable(c);
  if (left == kL) return right != kNone && right != kT;
  if (left == kV || left == kLV) return right == kV || right == kT;
  return (left == kT || left == kLVT) && right == kT;
}

}  // namespace

size_t grapheme_end(std::string_view text, size_t begin) {
  size_t end = begin;
  char32_t before = next_character(text, end);
  if (before == '\r' && end < text.size() && text[end] == '\n') return end + 1;
  while (end < text.size() && !is_control(before)) {
    size_t after = end;
    const char32_t c = next_character(text, after);
    const bool one =
        joins(c) || makes_syllable(before, c) || (is_prepended(before) && !is_control(c));
    if (!one) break;
    before = c;
    end = after;
  }
  return end;
}

}  // namespace convoy::tokenizers
