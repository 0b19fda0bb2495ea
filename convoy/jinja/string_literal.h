#pragma once

#include <string>
#include <string_view>

namespace convoy::jinja {

/// Text of a literal between its quotes, escapes read as Python does. Throws Trouble.
std::string read_escapes(std::string_view literal);

}  // namespace convoy::jinja
