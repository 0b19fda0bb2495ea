#include "convoy/formats/json_object.h"

#include <set>
#include <vector>

#include "convoy/base/error.h"

namespace convoy::formats {

Json parse_json_object(std::string_view text, const std::string& what) {
  std::vector<std::set<std::string>> keys;
  std::string twice;
  auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second) {
      twice = parsed.get<std::string>();
    }
    return true;
  };
  Json json;
  try {
    json = Json::parse(text, watch);
  } catch (const Json::exception& error) {
    fail<FileError>("formats", "{} is not valid JSON in UTF-8: {}", what, json_trouble(error));
  }
  if (!twice.empty()) fail<FileError>("formats", "{}: '{}' is twice in it", what, twice);
  if (!json.is_object()) {
    fail<FileError>("formats", "{} is {}; expected an object", what, json.type_name());
  }
  return json;
}

}  // namespace convoy::formats
