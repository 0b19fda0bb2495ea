#include "convoy/base/json.h"

#include "convoy/base/error.h"

namespace convoy {

Json parse_json(std::string_view text, const std::string& where) {
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    fail<FileError>("json", "{} is not valid JSON: {} (byte {})", where,
                    std::string(error.what()).substr(std::string(error.what()).find(']') + 2),
                    error.byte);
  } catch (const Json::exception& error) {  // a number beyond every double
    fail<FileError>("json", "{} is not valid JSON: {}", where, error.what());
  }
}

}  // namespace convoy
