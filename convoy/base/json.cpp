#include "convoy/base/json.h"

#include <algorithm>

#include "convoy/base/error.h"

namespace convoy {

namespace {

/// Largest depth of nested lists and objects that is read: more than any file of ours or of Hugging
/// Face has. Recursive code over the values has a limited stack.
constexpr int64_t kMostNested = 500;

/// Returns how deep lists and objects lie in each other.
int64_t nesting(std::string_view text) {
  int64_t depth = 0, most = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      most = std::max(most, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return most;
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where) {
  if (nesting(text) > kMostNested) {
    fail<FileError>("json", "{} has lists or objects in each other more than {} deep", where,
                    kMostNested);
  }
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    fail<FileError>("json", "{} is not valid JSON: {} (byte {})", where, json_trouble(error),
                    error.byte);
  } catch (const Json::exception& error) {  // a number beyond every double
    fail<FileError>("json", "{} is not valid JSON: {}", where, json_trouble(error));
  }
}

std::string json_trouble(const Json::exception& error) {
  const std::string_view text = error.what();  // "[json.exception.type_error.302] type must ..."
  const auto name = text.find("] ");
  return std::string(name == std::string_view::npos ? text : text.substr(name + 2));
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string json_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string json_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace convoy
