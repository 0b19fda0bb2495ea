#pragma once

#include <string_view>

#include "convoy/jinja/syntax.h"

namespace convoy::jinja {

/// Statements of a template.
struct Syntax {
  Block statements;
  bool has_generation = false;  ///< whether there is a {% generation %}
};

/// Reads a template. Throws SyntaxTrouble for mistakes and for what convoy does not support.
Syntax parse(std::string_view source);

}  // namespace convoy::jinja
