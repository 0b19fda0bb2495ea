#pragma once

#include <cstdint>
#include <span>

namespace convoy::jinja {

/// Characters first, first + step, ..., last, each of which becomes itself plus `distance`.
struct CaseRun {
  char32_t first, last;
  int32_t step, distance;
};

/// Character that becomes several.
struct CaseText {
  char32_t character;
  const char* text;
};

struct CharRange {
  char32_t first, last;
};

struct CaseMap {
  std::span<const CaseRun> runs;
  std::span<const CaseText> texts;
};

/// Python's tables of characters, each in ascending order.
struct CaseTables {
  CaseMap upper, lower, title;
  std::span<const CharRange> cased, ignorable, hidden;
};

extern const CaseTables kCaseTables;

}  // namespace convoy::jinja
