#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace convoy::jinja {

/// Reads the character at byte `at` of well-formed UTF-8 and moves `at` behind it.
char32_t next_character(std::string_view text, size_t& at);
void append_character(std::string& out, char32_t c);

/// Number of characters of well-formed UTF-8.
size_t count_characters(std::string_view text);
/// First byte of the `index`-th character; the size where there are fewer.
size_t byte_of_character(std::string_view text, size_t index);

/// Python's str.isspace() and isprintable() of one character.
bool is_space(char32_t c);
bool is_printable(char32_t c);
/// Whether str.splitlines() ends a line here.
bool ends_line(char32_t c);

/// Bytes of the white space at the front or the back.
size_t space_in_front(std::string_view text);
size_t space_behind(std::string_view text);

/// Python's str.upper(), lower(), capitalize() and title().
std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);

/// Finds `wanted` like std::string_view::find(), in time that grows with the sum of both sizes.
size_t find_bytes(std::string_view text, std::string_view wanted, size_t from = 0);

}  // namespace convoy::jinja
