#pragma once

#include "convoy/jinja/value.h"

namespace convoy::jinja {

enum class Operator { kAdd, kSub, kMul, kDiv, kFloorDiv, kMod, kPow };

/// Python's a + b, a - b and so on. Throws Trouble where Python raises, and beyond 64 bits.
Value apply(Budget& budget, Operator op, const Value& a, const Value& b);

/// Python's -a and +a.
Value negative(const Value& a);
Value positive(const Value& a);

}  // namespace convoy::jinja
