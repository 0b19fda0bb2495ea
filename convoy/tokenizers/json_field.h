#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/json.h"

namespace convoy::tokenizers {

/// A value inside tokenizer.json that knows its place, so that errors name file, key and value.
class JsonField {
 public:
  /// Makes the part of `json` at the place `where`, as in "FILE: key.key[2]". `json` must outlive
  /// it.
  JsonField(const Json& json, std::string where) : json_(&json), where_(std::move(where)) {}

  const Json& json() const { return *json_; }
  const std::string& where() const { return where_; }
  bool is_null() const { return json_->is_null(); }

  /// Whether the key is there and not null.
  bool has(const char* key) const;
  /// Throws FileError when the key is missing or this is no object.
  JsonField operator[](const char* key) const;
  /// Returns the elements of a list.
  std::vector<JsonField> elements() const;
  /// Returns the "type" of an object.
  std::string type() const { return (*this)["type"].text(); }

  std::string text() const;
  /// Returns the bytes that a text holds as base64.
  std::string base64() const;
  bool flag() const;
  int64_t number(int64_t min, int64_t max) const;
  double fraction() const;

  std::string text(const char* key, const char* otherwise) const;
  bool flag(const char* key, bool otherwise) const;

  /// Throws FileError for a key that is not among these: it would be ignored.
  void expect_keys(std::initializer_list<std::string_view> known) const;

  /// Throws FileError for lists and objects nested deeper than any real file has them.
  void expect_flat() const;

  /// Throws FileError: "WHERE is VALUE; expected ...".
  [[noreturn]] void refuse(std::string_view expected) const;

 private:
  JsonField child(const char* key, const Json& json) const;

  const Json* json_;
  std::string where_;
};

}  // namespace convoy::tokenizers
