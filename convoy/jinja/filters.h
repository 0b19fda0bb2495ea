#pragma once

#include <span>
#include <string_view>

#include "convoy/jinja/callable.h"

namespace convoy::jinja {

using FilterFunction = Value (*)(Budget& budget, const Value& value, const Arguments& arguments);

struct Filter {
  std::string_view name;
  FilterFunction apply;
};

/// Filter under the name, or null.
FilterFunction find_filter(std::string_view name);

/// Tables of filters: of texts, of what is gone through, and of single values.
std::span<const Filter> text_filters();
std::span<const Filter> sequence_filters();
std::span<const Filter> value_filters();

/// Jinja's `attribute` of filters: "a.b.0" of a value, lower case if asked to ignore it.
Value attribute_path(Budget& budget, const Value& value, const Value* path, bool ignore_case);

}  // namespace convoy::jinja
