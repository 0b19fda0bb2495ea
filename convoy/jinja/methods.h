#pragma once

#include <string_view>

#include "convoy/jinja/callable.h"

namespace convoy::jinja {

/// Whether Python's type of the value has a method of this name that a sandboxed template may call.
bool has_method(const Value& value, std::string_view name);

/// Whether a type of Python has such a method and convoy does not.
bool is_refused_method(std::string_view name);

/// Calls `receiver.name(...)`. Throws Trouble.
Value call_method(Budget& budget, const Value& receiver, std::string_view name,
                  const Arguments& arguments);

/// Methods of texts alone.
Value call_text_method(Budget& budget, const Value& receiver, std::string_view name,
                       const Arguments& arguments);

}  // namespace convoy::jinja
