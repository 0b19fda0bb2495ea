#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/base/options.h"

namespace convoy::models {

/// A key of a model's config, bound to the variable that holds it: declared once, it is read from
/// and written to `config.json`, checked, and an option of `[model]`.
struct Field {
  using Value = std::variant<bool*, int64_t*, double*, std::string*, std::optional<int64_t>*,
                             std::optional<double>*, Json*>;
  std::string name;
  Value value;
  std::string help;
  double low = -HUGE_VAL, high = HUGE_VAL;  ///< of numbers, inclusive
  std::vector<std::string> choices{};       ///< of texts; empty = any
  std::vector<std::string> aliases{};
  std::string section{};  ///< of the option; "" = declare_options()'s
  /// Key, and its values while which the field has effect; empty: always.
  std::pair<std::string, std::vector<std::string>> only_with{};
  /// Texts that other programs take, with what to take here; they are refused.
  std::vector<std::pair<std::string, std::string>> instead{};
};

using Fields = std::vector<Field>;

// Sizes beyond any model: products of a few of them still fit 64 bits.
inline constexpr double kMostIds = 1e8, kWidest = 1e6, kDeepest = 1e4;
inline constexpr double kMostDropped = 0.99;

/// Takes every key that `fields` name out of `json` (an object). Throws FileError that names
/// `where` and the key on a value of another type.
void take_fields(Json& json, const Fields& fields, const std::string& where);

void write_fields(Json& json, const Fields& fields);

/// Throws UsageError on the first value out of range.
void check_fields(const Fields& fields);

/// Declares each as an option, of `section` where it names no other. Values of any JSON type are
/// given as JSON text.
void declare_options(OptionTable& table, const std::string& section, const Fields& fields);

}  // namespace convoy::models
