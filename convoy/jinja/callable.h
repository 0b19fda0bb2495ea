#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convoy/jinja/value.h"

namespace convoy::jinja {

/// Arguments of a call, in Python's order of evaluation.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

struct Node;
struct Scope;

/// Value that a template may call.
struct Callable {
  enum class Kind { kMacro, kMethod, kFunction };
  Kind kind = Kind::kFunction;
  std::string name;
  Value receiver;                ///< of a method
  int depth = 1;                 ///< as Value::depth()
  const Node* macro = nullptr;   ///< its statement; the template outlives it
  std::shared_ptr<Scope> scope;  ///< scope in which the macro was defined
};

/// Receives arguments by place or by name, as a Python function with these parameters would.
/// Arguments that were not given are null. Throws Trouble for too many and unknown ones.
std::vector<const Value*> bind(std::string_view function, const Arguments& arguments,
                               std::initializer_list<const char*> parameters, size_t required = 0);

}  // namespace convoy::jinja
