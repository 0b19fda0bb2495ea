#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace convoy {

using Json = nlohmann::json;

/// Parses JSON. Throws FileError that names `where` and the position of the mistake.
Json parse_json(std::string_view text, const std::string& where);

/// Message of a JSON exception without the library's own names.
std::string json_trouble(const Json::exception& error);

/// Returns the text under `key`; "" where there is none, or something else.
std::string text_of(const Json& json, const char* key);

/// One line of JSON; bytes that are not UTF-8 are shown as such instead of being an error.
std::string json_line(const Json& json);
/// JSON in several indented lines, for people; bytes that are not UTF-8 as in json_line().
std::string json_text(const Json& json);

}  // namespace convoy
