#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace convoy {

using Json = nlohmann::json;

/// Parses JSON. Throws FileError that names `where` and the position of the mistake.
Json parse_json(std::string_view text, const std::string& where);

}  // namespace convoy
