#pragma once

#include <string>
#include <string_view>

#include "convoy/base/json.h"

namespace convoy::formats {

/// Reads protobuf's text format into JSON without knowing the message type: field names in
/// camelCase, every field a list of its values in order, messages as objects, identifiers and
/// strings as strings. Source: the text format's language specification (protobuf.dev).
/// Throws FileError naming `where`, line and column.
Json parse_pbtxt(std::string_view text, const std::string& where);

}  // namespace convoy::formats
