#include "convoy/jinja/format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "convoy/jinja/access.h"
#include "convoy/jinja/python_text.h"
#include "convoy/jinja/text_operations.h"
#include "convoy/jinja/unicode.h"

namespace convoy::jinja {

namespace {

constexpr int64_t kMaxWidth = 1 << 20;
constexpr int kMaxPrecision = 300;

struct FormatSpec {
  std::string fill = " ";
  char align = 0, sign = 0, type = 0;
  bool alternate = false, zero = false, comma = false;
  int64_t width = 0;
  std::optional<int> precision;
};

int64_t read_number(std::string_view text, size_t& at, int64_t most, const char* what) {
  int64_t number = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    number = number * 10 + (text[at++] - '0');
    if (number > most) trouble("the {} of a format is beyond {}", what, most);
  }
  return number;
}

double as_double(const Value& value) {
  if (const double* number = value.as<double>()) return *number;
  const auto whole = as_integer(value);
  if (!whole) {
    check_defined(value);
    trouble("a format wants a number; got '{}'", value.type_name());
  }
  return static_cast<double>(*whole);
}

std::string with_commas(std::string digits) {
  size_t end = 0;
  while (end < digits.size() && digits[end] >= '0' && digits[end] <= '9') ++end;
  for (size_t at = end; at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

/// Digits of a number without its sign.
std::string magnitude(const Value& value, const FormatSpec& spec) {
  if (std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos && spec.type != 0) {
    const double number = std::abs(as_double(value));
    const bool percent = spec.type == '%';
    std::string out = print_float(percent ? 100 * number : number, percent ? 'f' : spec.type,
                                  spec.precision.value_or(6), spec.alternate);
    return percent ? out + "%" : out;
  }
  if (const double* real = value.as<double>()) {
    if (spec.type != 0) trouble("a format '{}' takes no float", spec.type);
    if (!spec.precision) return float_text(std::abs(*real));
    trouble("a format with a precision and no type is not supported");
  }
  const int64_t number = need_integer(value, "what a format prints");
  const uint64_t size = number < 0 ? -static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  switch (spec.type) {
    case 'x':
      return (spec.alternate ? "0x" : "") + fmt::format("{:x}", size);
    case 'X':
      return (spec.alternate ? "0X" : "") + fmt::format("{:X}", size);
    case 'o':
      return (spec.alternate ? "0o" : "") + fmt::format("{:o}", size);
    case 'b':
      return (spec.alternate ? "0b" : "") + fmt::format("{:b}", size);
    case 0:
    case 'd':
    case 'i':
    case 'u':
      return std::to_string(size);
    default:
      trouble("the format '{}' is not supported", spec.type);
  }
}

bool is_negative(const Value& value) {
  const double* real = value.as<double>();
  return real != nullptr ? std::signbit(*real) && !std::isnan(*real)
                         : as_integer(value).value_or(0) < 0;
}

std::string number_text(Budget& budget, const Value& value, const FormatSpec& spec) {
  std::string digits = magnitude(value, spec);
  if (spec.comma) digits = with_commas(std::move(digits));
  const std::string sign = is_negative(value)                     ? "-"
                           : spec.sign == '+' || spec.sign == ' ' ? std::string(1, spec.sign)
                                                                  : "";
  if (spec.align == '=' || (spec.zero && spec.align == 0)) {
    const std::string fill = spec.zero && spec.align == 0 ? "0" : spec.fill;
    return sign + padded(budget, digits, spec.width - static_cast<int64_t>(sign.size()), '>', fill);
  }
  return padded(budget, sign + digits, spec.width, spec.align != 0 ? spec.align : '>', spec.fill);
}

std::string text_text(Budget& budget, std::string text, const FormatSpec& spec, char align) {
  if (spec.precision) {
    text.resize(byte_of_character(text, static_cast<size_t>(*spec.precision)));
  }
  return padded(budget, text, spec.width, spec.align != 0 ? spec.align : align, spec.fill);
}

/// Parses [[fill]align][sign][#][0][width][,][.precision][type].
FormatSpec read_spec(std::string_view text) {
  FormatSpec spec;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  size_t at = 0;
  if (!text.empty()) {
    size_t behind = 0;
    next_character(text, behind);
    if (behind < text.size() && is_align(text[behind])) {
      spec.fill = text.substr(0, behind);
      spec.align = text[behind];
      at = behind + 1;
    } else if (is_align(text[0])) {
      spec.align = text[at++];
    }
  }
  const auto take = [&](std::string_view any) {
    return at < text.size() && any.find(text[at]) != std::string_view::npos ? text[at++] : '\0';
  };
  spec.sign = take("+- ");
  spec.alternate = take("#") != 0;
  spec.zero = take("0") != 0;
  spec.width = read_number(text, at, kMaxWidth, "width");
  spec.comma = take(",") != 0;
  if (take(".") != 0) spec.precision = read_number(text, at, kMaxPrecision, "precision");
  spec.type = take("sdxXobeEfFgG%");
  if (at < text.size()) trouble("the format '{}' is not supported", text.substr(0, 40));
  return spec;
}

/// Value of a {} field by name or place, with its .attributes and [items].
Value field_of(Budget& budget, std::string_view field, const Arguments& arguments, size_t& next) {
  const size_t end = std::min(field.find_first_of(".["), field.size());
  const std::string_view name = field.substr(0, end);
  Value value;
  const bool is_place = name.find_first_not_of("0123456789") == std::string_view::npos;
  if (is_place) {
    size_t at = 0;
    const size_t place =
        name.empty() ? next++ : static_cast<size_t>(read_number(name, at, 1 << 20, "place"));
    if (place >= arguments.positional.size()) trouble("format() lacks argument {}", place);
    value = arguments.positional[place];
  } else {
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& each) { return each.first == name; });
    if (found == arguments.named.end()) trouble("format() lacks the argument '{}'", name);
    value = found->second;
  }
  for (size_t at = end; at < field.size();) {
    const bool item = field[at] == '[';
    const size_t stop =
        std::min(item ? field.find(']', at) : field.find_first_of(".[", at + 1), field.size());
    const std::string_view key = field.substr(at + 1, stop - at - 1);
    if (item) {
      const bool digits =
          !key.empty() && key.find_first_not_of("0123456789") == std::string_view::npos;
      size_t from = 0;
      value = item_of(
          budget, value,
          digits ? Value(read_number(key, from, 1 << 30, "place")) : Value::text(std::string(key)));
    } else {
      value = attribute_of(budget, value, key);
    }
    check_defined(value);
    at = stop + (item ? 1 : 0);
  }
  return value;
}

std::string by_spec(Budget& budget, const Value& value, const FormatSpec& spec) {
  const bool is_bool = value.as<bool>() != nullptr;
  const bool number =
      value.as<double>() != nullptr || (as_integer(value) && !(is_bool && spec.type == 0));
  if (number && spec.type != 's') return number_text(budget, value, spec);
  if (spec.type != 0 && spec.type != 's') trouble("a format '{}' wants a number", spec.type);
  return text_text(budget, str(budget, value), spec, '<');
}

}  // namespace

std::string print_float(double number, char type, int precision, bool alternate) {
  char buffer[1024];
  const std::string pattern = fmt::format("%{}.{}{}", alternate ? "#" : "", precision, type);
  const int length = std::snprintf(buffer, sizeof(buffer), pattern.c_str(), number);
  return std::string(buffer, static_cast<size_t>(std::clamp(length, 0, 1023)));
}

std::string format_braces(Budget& budget, const std::string& text, const Arguments& arguments) {
  std::string out;
  size_t next = 0;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at++];
    if (c != '{' && c != '}') {
      out += c;
      continue;
    }
    if (at < text.size() && text[at] == c) {
      out += c;
      ++at;
      continue;
    }
    const size_t end = text.find('}', at);
    if (c == '}' || end == std::string::npos) trouble("format() meets a single '{}'", c);
    std::string_view field = std::string_view(text).substr(at, end - at);
    if (field.find('{') != std::string_view::npos)
      trouble("braces within braces are not supported");
    at = end + 1;
    std::string_view spec_text, conversion;
    if (const size_t colon = field.find(':'); colon != std::string_view::npos) {
      spec_text = field.substr(colon + 1);
      field = field.substr(0, colon);
    }
    if (const size_t mark = field.find('!'); mark != std::string_view::npos) {
      conversion = field.substr(mark + 1);
      field = field.substr(0, mark);
      if (conversion != "s" && conversion != "r") trouble("format() knows !s and !r");
    }
    Value value = field_of(budget, field, arguments, next);
    if (!conversion.empty()) {
      value = Value::text(conversion == "r" ? repr(budget, value) : str(budget, value));
    }
    out += by_spec(budget, value, read_spec(spec_text));
  }
  budget.bytes(out.size());
  return out;
}

std::string format_percent(Budget& budget, const std::string& text, const Value& values) {
  const bool is_tuple = values.is_sequence(Sequence::Kind::kTuple);
  // Python minds values that are not used in tuples and single values, not in lists and dicts.
  const bool is_list = values.as_sequence() != nullptr && !is_tuple;
  size_t used = 0;
  const auto next = [&]() -> const Value& {
    if (!is_tuple && used == 0) return ++used, values;
    if (!is_tuple || used >= values.as_sequence()->items.size()) {
      trouble("there are too few values for the format");
    }
    return values.as_sequence()->items[used++];
  };
  std::string out;
  bool by_key = false;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '%') {
      out += text[at++];
      continue;
    }
    if (++at < text.size() && text[at] == '%') {
      out += text[at++];
      continue;
    }
    std::optional<Value> keyed;
    if (at < text.size() && text[at] == '(') {
      const size_t end = text.find(')', at);
      if (end == std::string::npos || values.as_dict() == nullptr)
        trouble("the format wants a dict");
      const Value* found =
          values.as_dict()->find(std::string_view(text).substr(at + 1, end - at - 1));
      if (found == nullptr)
        trouble("the format's dict lacks '{}'", text.substr(at + 1, end - at - 1));
      keyed = *found;
      by_key = true;
      at = end + 1;
    }
    FormatSpec spec;
    for (; at < text.size() && std::string_view("#0- +").find(text[at]) != std::string_view::npos;
         ++at) {
      const char flag = text[at];
      if (flag == '#') spec.alternate = true;
      if (flag == '0') spec.zero = true;
      if (flag == '-') spec.align = '<';
      if (flag == '+' || (flag == ' ' && spec.sign == 0)) spec.sign = flag;
    }
    spec.width = read_number(text, at, kMaxWidth, "width");
    if (at < text.size() && text[at] == '.') {
      spec.precision = read_number(text, ++at, kMaxPrecision, "precision");
    }
    if (at == text.size()) trouble("the format ends within a '%'");
    spec.type = text[at++];
    const Value& value = keyed ? *keyed : next();
    if (spec.type == 's' || spec.type == 'r') {
      out +=
          text_text(budget, spec.type == 's' ? str(budget, value) : repr(budget, value), spec, '>');
    } else if (std::string_view("dixXoeEfFgG").find(spec.type) != std::string_view::npos) {
      const double* real = value.as<double>();
      const bool whole = std::string_view("diu").find(spec.type) != std::string_view::npos;
      if (real != nullptr && whole && !(std::abs(*real) < 9e18))
        trouble("'%d' of a number beyond 64 bits");
      if (spec.precision && (whole || spec.type == 'x'))
        trouble("a precision of '%d' is not supported");
      out += number_text(
          budget, real != nullptr && whole ? Value(static_cast<int64_t>(*real)) : value, spec);
    } else {
      trouble("the format '%{}' is not supported", spec.type);
    }
  }
  if (!by_key && values.as_dict() == nullptr && !is_list &&
      used < (is_tuple ? values.as_sequence()->items.size() : 1)) {
    trouble("the format does not use all its values");
  }
  budget.bytes(out.size());
  return out;
}

}  // namespace convoy::jinja
