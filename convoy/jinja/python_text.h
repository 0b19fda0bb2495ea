#pragma once

#include <string>

#include "convoy/jinja/value.h"

namespace convoy::jinja {

/// Python's str(value). An undefined value gives "".
std::string str(Budget& budget, const Value& value);

/// Python's repr(value).
std::string repr(Budget& budget, const Value& value);

/// Python's repr of a float: the shortest digits that give it back.
std::string float_text(double number);

/// Markupsafe's soft_str(): str(value), but a text is not copied, and keeps whether it is safe.
Value soft_text(Budget& budget, const Value& value);

}  // namespace convoy::jinja
