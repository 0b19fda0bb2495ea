#pragma once

#include "convoy/jinja/value.h"

namespace convoy::jinja {

/// Python's `a == b`.
bool equal(Budget& budget, const Value& a, const Value& b);

/// Python's `a < b`. Throws Trouble where Python raises TypeError.
bool less(Budget& budget, const Value& a, const Value& b);

/// Python's `item in container`.
bool contains(Budget& budget, const Value& container, const Value& item);

/// Throws Trouble for a value that cannot be the key of a dict.
void check_hashable(Budget& budget, const Value& key);

}  // namespace convoy::jinja
