#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "convoy/jinja/value.h"

namespace convoy::jinja {

/// Python's strip(), lstrip() and rstrip(); `characters` null: white space. Keeps answers in place.
Value strip(Budget& budget, const Value& text, const std::string* characters, bool front,
            bool back);

/// Python's split() and rsplit(); `separator` null: at white space; `most` below 0: everywhere.
std::vector<std::string_view> split_parts(std::string_view text, const std::string* separator,
                                          int64_t most, bool from_right);

/// Python's splitlines().
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends);

/// Python's replace(); `most` below 0: all.
std::string replaced(Budget& budget, std::string_view text, std::string_view old,
                     std::string_view now, int64_t most);

/// Texts in a row, separated. `strict`: anything but a text is an error, and a safe separator
/// escapes; else each is taken by str().
Value join(Budget& budget, const Value& separator, const std::vector<Value>& items, bool strict);

/// Texts one behind the other, with their answers: the operator ~.
Value concatenated(Budget& budget, const std::vector<Value>& texts, bool safe = false);

/// markupsafe's escape(): & < > " '.
std::string escaped(Budget& budget, std::string_view text);

/// Returns the text filled up to `width` characters. `align`: < > or ^ (`left_first`:
/// str.center()'s way of sharing out an odd number).
std::string padded(Budget& budget, std::string_view text, int64_t width, char align,
                   std::string_view fill, bool left_first = false);

}  // namespace convoy::jinja
