#pragma once

#include <cmath>
#include <concepts>
#include <optional>
#include <utility>

#include "convoy/base/json.h"

// The one reader of numbers in what others wrote: requests, and files of other programs. Json's own
// conversions cut fractions off, wrap negative numbers round, and are undefined beyond the type.
namespace convoy {

/// Whole number of a JSON value; none for a fraction, a number beyond T, or anything else.
template <std::integral T>
std::optional<T> whole_number(const Json& json) {
  if (json.is_number_unsigned()) {
    const auto number = json.get_ref<const Json::number_unsigned_t&>();
    return std::in_range<T>(number) ? std::optional(static_cast<T>(number)) : std::nullopt;
  }
  if (!json.is_number_integer()) return std::nullopt;
  const auto number = json.get_ref<const Json::number_integer_t&>();
  return std::in_range<T>(number) ? std::optional(static_cast<T>(number)) : std::nullopt;
}

/// Number of a JSON value; none for one that is not finite, or anything else.
inline std::optional<double> finite_number(const Json& json) {
  if (const auto* real = json.get_ptr<const Json::number_float_t*>()) {
    return std::isfinite(*real) ? std::optional(*real) : std::nullopt;
  }
  if (!json.is_number()) return std::nullopt;
  return json.is_number_unsigned()
             ? static_cast<double>(json.get_ref<const Json::number_unsigned_t&>())
             : static_cast<double>(json.get_ref<const Json::number_integer_t&>());
}

}  // namespace convoy
