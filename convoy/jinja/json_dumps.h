#pragma once

#include <optional>
#include <string>

#include "convoy/jinja/value.h"

namespace convoy::jinja {

/// Choices of Python's json.dumps().
struct DumpOptions {
  bool ensure_ascii = false;  ///< default of transformers' filter 'tojson'
  bool sort_keys = false;
  std::optional<std::string> indent;  ///< of one level
  std::string item_separator = ", ", key_separator = ": ";
};

/// Python's json.dumps(value). Throws Trouble for what is not JSON.
std::string json_dumps(Budget& budget, const Value& value, const DumpOptions& options);

}  // namespace convoy::jinja
