#pragma once

#include <string>
#include <string_view>

#include "convoy/base/json.h"

namespace convoy::formats {

/// Parses a JSON object. A key that comes twice in one object is an error: JSON libraries differ in
/// which one wins. Throws FileError about `what`.
Json parse_json_object(std::string_view text, const std::string& what);

}  // namespace convoy::formats
