#include "convoy/jinja/string_literal.h"

#include "convoy/jinja/budget.h"
#include "convoy/jinja/unicode.h"

namespace convoy::jinja {

namespace {

/// Character of an escape with exactly `count` hexadecimal digits behind `at`, which moves on.
char32_t hexadecimal(std::string_view literal, size_t& at, int count) {
  char32_t c = 0;
  for (int i = 0; i < count; ++i) {
    const char digit = at < literal.size() ? literal[at] : '\0';
    const char letter = static_cast<char>(digit | 0x20);
    if (digit >= '0' && digit <= '9')
      c = c << 4 | static_cast<char32_t>(digit - '0');
    else if (letter >= 'a' && letter <= 'f')
      c = c << 4 | static_cast<char32_t>(letter - 'a' + 10);
    else
      trouble("an escape in a text lacks hexadecimal digits");
    ++at;
  }
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) trouble("an escape in a text is no character");
  return c;
}

}  // namespace

std::string read_escapes(std::string_view literal) {
  std::string out;
  for (size_t at = 0; at < literal.size();) {
    if (literal[at] != '\\') {
      out += literal[at++];
      continue;
    }
    ++at;
    if (at == literal.size()) trouble("a text ends within an escape");
    const size_t begin = at;
    const char32_t c = next_character(literal, at);
    switch (c) {
      case '\n':
        break;
      case '\\':
        out += '\\';
        break;
      case '\'':
        out += '\'';
        break;
      case '"':
        out += '"';
        break;
      case 'a':
        out += '\a';
        break;
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'v':
        out += '\v';
        break;
      case 'x':
        append_character(out, hexadecimal(literal, at, 2));
        break;
      case 'u':
        append_character(out, hexadecimal(literal, at, 4));
        break;
      case 'U':
        append_character(out, hexadecimal(literal, at, 8));
        break;
      case 'N':
        trouble("escapes \\N{{...}} of names are not supported");
      default:
        if (c >= '0' && c <= '7') {
          char32_t number = 0;
          at = begin;
          for (int i = 0; i < 3 && at < literal.size() && literal[at] >= '0' && literal[at] <= '7';
               ++i) {
            number = number * 8 + static_cast<char32_t>(literal[at++] - '0');
          }
          append_character(out, number);
        } else if (c < 0x80) {
          out += '\\';
          out += static_cast<char>(c);
        } else {
          // Jinja's way over ASCII leaves the backslash in front of an escape of its own.
          out += fmt::format(fmt::runtime(c < 0x100     ? "\\x{:02x}"
                                          : c < 0x10000 ? "\\u{:04x}"
                                                        : "\\U{:08x}"),
                             static_cast<uint32_t>(c));
        }
    }
  }
  return out;
}

}  // namespace convoy::jinja
