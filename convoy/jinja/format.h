#pragma once

#include <string>

#include "convoy/jinja/callable.h"

namespace convoy::jinja {

/// Python's `text % values`.
std::string format_percent(Budget& budget, const std::string& text, const Value& values);

/// Python's text.format(...).
std::string format_braces(Budget& budget, const std::string& text, const Arguments& arguments);

/// Python's round-trip of printf: "%.3f" and its like, of one number.
std::string print_float(double number, char type, int precision, bool alternate);

}  // namespace convoy::jinja
