#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace convoy::formats {

/// Column of items in files that convoy writes, and in most others.
inline constexpr const char* kItemColumn = "item_id-list";

/// Range of whole numbers that a feature takes.
struct IntDomain {
  int64_t min = 0;
  int64_t max = 0;
  bool is_categorical = false;
  std::string name;
};

/// Range of fractions that a feature takes.
struct FloatDomain {
  double min = 0;
  double max = 0;
  std::string name;
};

/// One column of a data set.
struct Feature {
  enum Type { Int, Float, Bytes, Unknown };

  std::string name;
  Type type = Int;         ///< Unknown: the schema does not say, as of columns that nobody reads
  bool is_list = false;    ///< has a value count: one list of values a row
  int64_t min_length = 0;  ///< of the list; 0 when unknown
  int64_t max_length = 0;  ///< of the list; 0 when unknown
  std::optional<IntDomain> int_domain;
  std::optional<FloatDomain> float_domain;
  std::vector<std::string> tags;  ///< "item_id", "categorical", "list", ...

  bool has_tag(std::string_view tag) const;
};

/// Meaning of a data set's columns, in Transformers4Rec's forms: `schema.json` (TensorFlow Metadata
/// in JSON: camelCase keys, whole numbers plain or quoted) and `schema.pbtxt` (the same as protobuf
/// text).
struct Schema {
  std::vector<Feature> features;
  /// Fields that neither this reader nor TensorFlow Metadata knows: misspelled, probably.
  std::vector<std::string> warnings;
  std::string where = "the schema";  ///< its file, for messages

  /// Reads a file, `.pbtxt` as protobuf text, any other as JSON. Throws FileError: missing, not
  /// JSON or text (with the position), a type that is not known, empty domain, a feature twice.
  static Schema load(const std::filesystem::path& path);
  /// Reads text; `where` names it in messages.
  static Schema from_json(std::string_view text, const std::string& where);
  static Schema from_pbtxt(std::string_view text, const std::string& where);
  /// Text that from_json reads back; int64 quoted as the format asks.
  std::string to_json() const;

  /// Returns the feature of that name, or null.
  const Feature* find(std::string_view name) const;
  /// Returns the one feature tagged `item_id`. Throws FileError when there is none or more than
  /// one.
  const Feature& item_id() const;
};

/// Returns the schema in a folder of data: `schema.json`, else `schema.pbtxt`; `schema.json` when
/// there is neither.
std::filesystem::path schema_in(const std::filesystem::path& folder);

}  // namespace convoy::formats
