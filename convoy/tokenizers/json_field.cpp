#include "convoy/tokenizers/json_field.h"

#include <algorithm>

#include "convoy/base/base64.h"
#include "convoy/base/json_number.h"

namespace convoy::tokenizers {
namespace {

bool is_deeper(const Json& json, int levels) {
  if (!json.is_structured()) return false;
  if (levels == 0) return true;
  return std::any_of(json.begin(), json.end(),
                     [&](const Json& element) { return is_deeper(element, levels - 1); });
}

}  // namespace

void JsonField::expect_flat() const {
  constexpr int kLevels = 32;
  if (is_deeper(*json_, kLevels)) {
    fail<FileError>("tokenizer", "{}lists and objects are nested more than {} deep", where_,
                    kLevels);
  }
}

void JsonField::refuse(std::string_view expected) const {
  std::string value = json_->dump(-1, ' ', true, Json::error_handler_t::replace);
  if (value.size() > 80) value = value.substr(0, 77) + "...";
  fail<FileError>("tokenizer", "{} is {}; expected {}", where_, value, expected);
}

JsonField JsonField::child(const char* key, const Json& json) const {
  return {json, where_ + (where_.ends_with(": ") ? "" : ".") + key};
}

bool JsonField::has(const char* key) const {
  return json_->is_object() && json_->contains(key) && !(*json_)[key].is_null();
}

JsonField JsonField::operator[](const char* key) const {
  if (!json_->is_object()) refuse("an object");
  const auto found = json_->find(key);
  if (found == json_->end()) fail<FileError>("tokenizer", "{} lacks '{}'", where_, key);
  return child(key, *found);
}

std::vector<JsonField> JsonField::elements() const {
  if (!json_->is_array()) refuse("a list");
  std::vector<JsonField> parts;
  parts.reserve(json_->size());
  for (const Json& element : *json_) {
    parts.emplace_back(element, fmt::format("{}[{}]", where_, parts.size()));
  }
  return parts;
}

std::string JsonField::text() const {
  if (!json_->is_string()) refuse("a text");
  return json_->get<std::string>();
}

std::string JsonField::base64() const {
  auto bytes = from_base64(text());
  if (!bytes) refuse("bytes as base64");
  return *std::move(bytes);
}

bool JsonField::flag() const {
  if (!json_->is_boolean()) refuse("true or false");
  return json_->get<bool>();
}

int64_t JsonField::number(int64_t min, int64_t max) const {
  const auto value = whole_number<int64_t>(*json_);
  if (!value || *value < min || *value > max) {
    refuse(fmt::format("a whole number {} to {}", min, max));
  }
  return *value;
}

double JsonField::fraction() const {
  const auto value = finite_number(*json_);
  if (!value) refuse("a number");
  return *value;
}

std::string JsonField::text(const char* key, const char* otherwise) const {
  return has(key) ? (*this)[key].text() : otherwise;
}

bool JsonField::flag(const char* key, bool otherwise) const {
  return has(key) ? (*this)[key].flag() : otherwise;
}

void JsonField::expect_keys(std::initializer_list<std::string_view> known) const {
  if (!json_->is_object()) refuse("an object");
  for (const auto& [key, value] : json_->items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      child(key.c_str(), value).refuse("no such key: it is not supported");
    }
  }
}

}  // namespace convoy::tokenizers
