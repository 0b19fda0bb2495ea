#include <charconv>
#include <cmath>
#include <optional>

#include "convoy/jinja/access.h"
#include "convoy/jinja/filters.h"
#include "convoy/jinja/format.h"
#include "convoy/jinja/json_dumps.h"
#include "convoy/jinja/operators.h"
#include "convoy/jinja/unicode.h"

namespace convoy::jinja {

namespace {

Value default_of(Budget&, const Value& value, const Arguments& arguments) {
  const auto given = bind("default", arguments, {"default_value", "boolean"});
  const bool replace_false = given[1] != nullptr && given[1]->truthy();
  if (!value.is_undefined() && (!replace_false || value.truthy())) return value;
  return given[0] != nullptr ? *given[0] : Value::text("");
}

Value to_json(Budget& budget, const Value& value, const Arguments& arguments) {
  const auto given =
      bind("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  DumpOptions options;
  options.ensure_ascii = given[0] != nullptr && given[0]->truthy();
  options.sort_keys = given[3] != nullptr && given[3]->truthy();
  if (given[1] != nullptr && !given[1]->is_none()) {
    if (const Text* text = given[1]->as_text()) {
      options.indent = text->bytes;
    } else {
      const int64_t width = std::max<int64_t>(need_integer(*given[1], "the indent of 'tojson'"), 0);
      if (width > 1000) trouble("an indent of {} is too much", width);
      options.indent = std::string(static_cast<size_t>(width), ' ');
    }
    options.item_separator = ",";
  }
  if (given[2] != nullptr && !given[2]->is_none()) {
    const auto parts = iterate(budget, *given[2]);
    if (parts.size() != 2) trouble("'tojson' takes two separators; got {}", parts.size());
    options.item_separator = need_text(parts[0], "a separator of 'tojson'");
    options.key_separator = need_text(parts[1], "a separator of 'tojson'");
  }
  return Value::text(json_dumps(budget, value, options));
}

/// Digits of a number as Python reads them: "_" is allowed between digits, white space is not.
std::optional<std::string> plain_digits(std::string_view text) {
  text.remove_prefix(space_in_front(text));
  text.remove_suffix(space_behind(text));
  if (text.starts_with('+')) {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  std::string out;
  const auto digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_')
      out += text[i];
    else if (i == 0 || !digit(i - 1) || !digit(i + 1))
      return std::nullopt;
  }
  return out;
}

std::optional<double> read_double(std::string_view text) {
  const auto digits = plain_digits(text);
  if (!digits || digits->empty() || digits->find_first_of("(xX") != std::string::npos)
    return std::nullopt;
  double number = 0;
  const auto end = std::from_chars(digits->data(), digits->data() + digits->size(), number);
  if (end.ec == std::errc::result_out_of_range) trouble("'{}' is beyond a float", *digits);
  if (end.ec != std::errc() || end.ptr != digits->data() + digits->size()) return std::nullopt;
  return number;
}

std::optional<int64_t> read_integer(std::string_view text) {
  const auto digits = plain_digits(text);
  if (!digits) return std::nullopt;
  int64_t number = 0;
  const auto end = std::from_chars(digits->data(), digits->data() + digits->size(), number);
  if (end.ec == std::errc::result_out_of_range) trouble("'{}' does not fit into 64 bits", *digits);
  if (end.ec != std::errc() || end.ptr != digits->data() + digits->size()) return std::nullopt;
  return number;
}

Value to_int(Budget&, const Value& value, const Arguments& arguments) {
  const auto given = bind("int", arguments, {"default", "base"});
  if (given[1] != nullptr && as_integer(*given[1]) != 10)
    trouble("'int' of a base but 10 is not supported");
  const Value otherwise = given[0] != nullptr ? *given[0] : Value(int64_t{0});
  check_defined(value);
  if (const auto number = as_integer(value)) return Value(*number);
  std::optional<double> real;
  if (const Text* text = value.as_text()) {
    if (const auto number = read_integer(text->bytes)) return Value(*number);
    real = read_double(text->bytes);
  } else if (value.as<double>() != nullptr) {
    real = *value.as<double>();
  }
  if (!real || !std::isfinite(*real)) return otherwise;
  if (std::abs(*real) >= 9.2e18) trouble("a whole number does not fit into 64 bits");
  return Value(static_cast<int64_t>(*real));
}

Value to_float(Budget&, const Value& value, const Arguments& arguments) {
  const auto given = bind("float", arguments, {"default"});
  check_defined(value);
  std::optional<double> real;
  if (const auto number = as_integer(value))
    real = static_cast<double>(*number);
  else if (value.as<double>() != nullptr)
    real = *value.as<double>();
  else if (const Text* text = value.as_text())
    real = read_double(text->bytes);
  if (real) return Value(*real);
  return given[0] != nullptr ? *given[0] : Value(0.0);
}

Value absolute(Budget&, const Value& value, const Arguments& arguments) {
  bind("abs", arguments, {});
  if (const double* real = value.as<double>()) return Value(std::abs(*real));
  const int64_t number = need_integer(value, "what 'abs' takes");
  return number < 0 ? negative(value) : Value(number);
}

Value rounded(Budget&, const Value& value, const Arguments& arguments) {
  const auto given = bind("round", arguments, {"precision", "method"});
  const int64_t precision = given[0] != nullptr ? need_integer(*given[0], "the precision") : 0;
  const std::string method = given[1] != nullptr ? need_text(*given[1], "the method") : "common";
  if (precision < 0 || precision > 300) trouble("'round' to {} digits is not supported", precision);
  const double* real = value.as<double>();
  if (method == "common") {
    if (real == nullptr) return Value(need_integer(value, "what 'round' takes"));
    if (!std::isfinite(*real)) return value;
    return Value(std::stod(print_float(*real, 'f', static_cast<int>(precision), false)));
  }
  if (method != "ceil" && method != "floor") trouble("'round' knows common, ceil and floor");
  const double number =
      real != nullptr ? *real : static_cast<double>(need_integer(value, "what 'round' takes"));
  const double scale = std::pow(10.0, static_cast<double>(precision));
  return Value((method == "ceil" ? std::ceil(number * scale) : std::floor(number * scale)) / scale);
}

constexpr Filter kValueTable[] = {
    {"abs", absolute}, {"d", default_of},  {"default", default_of}, {"float", to_float},
    {"int", to_int},   {"round", rounded}, {"tojson", to_json},
};

}  // namespace

std::span<const Filter> value_filters() {
  return kValueTable;
}

}  // namespace convoy::jinja
