#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "convoy/jinja/value.h"

namespace convoy::jinja {

/// Throws Trouble with the sentence of an undefined value; others pass.
void check_defined(const Value& value);

/// Items that Python's iter(value) gives: of a sequence, a dict's keys, a text's characters,
/// nothing of an undefined value. A generator is used up by it. Throws Trouble for anything else.
std::vector<Value> iterate(Budget& budget, const Value& value);

/// Python's len(value).
int64_t length(const Value& value);

/// Jinja's `value.name`: a method of the type first, then the item under that key; undefined where
/// there is neither.
Value attribute_of(Budget& budget, const Value& value, std::string_view name);

/// Jinja's `value[key]`: the item, then the method of that name.
Value item_of(Budget& budget, const Value& value, const Value& key);

/// Python's `value[begin:end:step]`; null for a bound that is left out.
Value stretch_of(Budget& budget, const Value& value, const Value* begin, const Value* end,
                 const Value* step);

/// A whole number, of int or bool.
std::optional<int64_t> as_integer(const Value& value);
/// Whole number, of int or bool; throws Trouble that names `what` for anything else.
int64_t need_integer(const Value& value, std::string_view what);
/// Returns the bytes of a text; throws Trouble that names `what` for anything else.
const std::string& need_text(const Value& value, std::string_view what);

}  // namespace convoy::jinja
