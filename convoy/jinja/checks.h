#pragma once

#include <string_view>

#include "convoy/jinja/callable.h"

namespace convoy::jinja {

/// Test of a value, as in `value is mapping`.
using CheckFunction = bool (*)(Budget& budget, const Value& value, const Arguments& arguments);

/// Test under the name, or null.
CheckFunction find_check(std::string_view name);

}  // namespace convoy::jinja
