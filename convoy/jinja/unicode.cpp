#include "convoy/jinja/unicode.h"

#include <algorithm>
#include <cstring>

#include "convoy/jinja/case_tables.h"

namespace convoy::jinja {

namespace {

bool in(std::span<const CharRange> ranges, char32_t c) {
  const auto found = std::upper_bound(ranges.begin(), ranges.end(), c,
                                      [](char32_t c, const CharRange& r) { return c < r.first; });
  return found != ranges.begin() && c <= std::prev(found)->last;
}

void append_mapped(std::string& out, const CaseMap& map, char32_t c) {
  const auto run = std::upper_bound(map.runs.begin(), map.runs.end(), c,
                                    [](char32_t c, const CaseRun& r) { return c < r.first; });
  if (run != map.runs.begin()) {
    const CaseRun& found = *std::prev(run);
    if (c <= found.last && (c - found.first) % static_cast<char32_t>(found.step) == 0) {
      return append_character(out, static_cast<char32_t>(static_cast<int64_t>(c) + found.distance));
    }
  }
  for (const CaseText& text : map.texts) {
    if (text.character == c) {
      out += text.text;
      return;
    }
  }
  append_character(out, c);
}

/// Whether a capital sigma that ends at byte `end` and begins at `begin` ends a word.
bool ends_word(std::string_view text, size_t begin, size_t end) {
  bool cased_before = false;
  for (size_t at = begin; at > 0;) {
    do --at;
    while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    size_t behind = at;
    const char32_t c = next_character(text, behind);
    if (in(kCaseTables.ignorable, c)) continue;
    cased_before = in(kCaseTables.cased, c);
    break;
  }
  if (!cased_before) return false;
  while (end < text.size()) {
    const char32_t c = next_character(text, end);
    if (!in(kCaseTables.ignorable, c)) return !in(kCaseTables.cased, c);
  }
  return true;
}

constexpr char32_t kCapitalSigma = 0x3A3, kFinalSigma = 0x3C2;

void append_lower(std::string& out, std::string_view text, size_t begin, size_t end, char32_t c) {
  if (c == kCapitalSigma && ends_word(text, begin, end)) return append_character(out, kFinalSigma);
  append_mapped(out, kCaseTables.lower, c);
}

bool has_case(char32_t c) {
  return in(kCaseTables.cased, c);
}

}  // namespace

char32_t next_character(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const char32_t first = byte(at);
  const size_t length = first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  char32_t c = length == 1 ? first : first & (0x7FU >> length);
  for (size_t i = 1; i < length && at + i < text.size(); ++i) c = c << 6 | (byte(at + i) & 0x3F);
  at = std::min(at + length, text.size());
  return c;
}

void append_character(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr unsigned kLead[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(kLead[more] | c >> (6 * more));
  for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | (c >> (6 * i) & 0x3F));
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

size_t byte_of_character(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) next_character(text, at);
  return at;
}

bool is_space(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  return !in(kCaseTables.hidden, c);
}

bool ends_line(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

size_t space_in_front(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    size_t behind = at;
    if (!is_space(next_character(text, behind))) break;
    at = behind;
  }
  return at;
}

size_t space_behind(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t at = end;
    do --at;
    while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    size_t behind = at;
    if (!is_space(next_character(text, behind))) break;
    end = at;
  }
  return text.size() - end;
}

std::string upper(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    append_mapped(out, kCaseTables.upper, next_character(text, at));
  }
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    append_lower(out, text, begin, at, c);
  }
  return out;
}

std::string capitalize(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    if (begin == 0)
      append_mapped(out, kCaseTables.title, c);
    else
      append_lower(out, text, begin, at, c);
  }
  return out;
}

std::string title(std::string_view text) {
  std::string out;
  bool within = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    if (within)
      append_lower(out, text, begin, at, c);
    else
      append_mapped(out, kCaseTables.title, c);
    within = has_case(c);
  }
  return out;
}

size_t find_bytes(std::string_view text, std::string_view wanted, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (wanted.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

}  // namespace convoy::jinja
