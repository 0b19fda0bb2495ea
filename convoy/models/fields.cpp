#include "convoy/models/fields.h"

#include <algorithm>
#include <type_traits>

#include "convoy/base/error.h"
#include "convoy/base/json_number.h"
#include "convoy/base/text.h"

namespace convoy::models {

namespace {

/// Reads a bool; null in old configs means false, as in Python.
bool read_value(const Json& json, bool& out) {
  if (json.is_boolean()) out = json.get<bool>();
  if (json.is_null()) out = false;
  return json.is_boolean() || json.is_null();
}

bool read_value(const Json& json, int64_t& out) {
  const auto number = whole_number<int64_t>(json);
  if (number) out = *number;
  return number.has_value();
}

bool read_value(const Json& json, double& out) {
  const auto number = finite_number(json);
  if (number) out = *number;
  return number.has_value();
}

bool read_value(const Json& json, std::string& out) {
  if (json.is_string()) out = json.get<std::string>();
  return json.is_string();
}

bool read_value(const Json& json, Json& out) {
  out = json;
  return true;
}

template <class T>
bool read_value(const Json& json, std::optional<T>& out) {
  out.reset();
  return json.is_null() || read_value(json, out.emplace());
}

const char* type_name(const Field::Value& value) {
  static const char* const kNames[] = {
      "true or false",          "a whole number",   "a number", "text",
      "a whole number or null", "a number or null", "any"};
  return kNames[value.index()];
}

/// Number of a field; NaN where it holds none.
double number_of(const Field::Value& value) {
  return std::visit(
      [](auto* at) -> double {
        using T = std::remove_pointer_t<decltype(at)>;
        if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double>) {
          return static_cast<double>(*at);
        } else if constexpr (std::is_same_v<T, std::optional<int64_t>> ||
                             std::is_same_v<T, std::optional<double>>) {
          return *at ? static_cast<double>(**at) : NAN;
        } else {
          return NAN;
        }
      },
      value);
}

void declare_json(OptionTable& table, const std::string& section, const Field& field, Json& value) {
  std::string unused;
  auto& option = table.add(section, field.name, unused, field.help);
  option.parse = [&value](const std::string& text) {
    value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (value.is_discarded()) value = text == "none" || text.empty() ? Json() : Json(text);
  };
  option.toml = [&value] { return toml_text(value.is_null() ? "none" : value.dump()); };
  option.initial = option.toml();
}

}  // namespace

void take_fields(Json& json, const Fields& fields, const std::string& where) {
  for (const auto& field : fields) {
    auto names = field.aliases;
    names.insert(names.begin(), field.name);
    std::string given;
    for (const auto& name : names) {
      auto found = json.find(name);
      if (found == json.end()) continue;
      if (!given.empty() && json[given] != *found) {
        fail<FileError>("models", "{}: {} = {}, but {} = {}, which means the same", where, given,
                        json[given].dump(), name, found->dump());
      }
      given = name;
      const bool fits = std::visit([&](auto* to) { return read_value(*found, *to); }, field.value);
      if (!fits) {
        fail<FileError>("models", "{}: {} = {} is not {}", where, name, found->dump(),
                        type_name(field.value));
      }
    }
    for (const auto& name : names) json.erase(name);
  }
}

void write_fields(Json& json, const Fields& fields) {
  for (const auto& field : fields) {
    std::visit(
        [&](const auto* from) {
          using T = std::remove_cv_t<std::remove_pointer_t<decltype(from)>>;
          if constexpr (std::is_same_v<T, std::optional<int64_t>> ||
                        std::is_same_v<T, std::optional<double>>) {
            json[field.name] = *from ? Json(**from) : Json();
          } else {
            json[field.name] = *from;
          }
        },
        field.value);
  }
}

void check_fields(const Fields& fields) {
  for (const auto& field : fields) {
    const double number = number_of(field.value);
    if (number < field.low || number > field.high) {
      fail<UsageError>("models", "{} = {}; expected {}", field.name, number,
                       std::isinf(field.high)
                           ? fmt::format("at least {}", field.low)
                           : fmt::format("between {} and {}", field.low, field.high));
    }
    auto* const* text = std::get_if<std::string*>(&field.value);
    if (text == nullptr || field.choices.empty()) continue;
    if (std::find(field.choices.begin(), field.choices.end(), **text) == field.choices.end()) {
      fail<UsageError>("models", "{} = '{}' is not supported; expected one of {}{}", field.name,
                       **text, join(field.choices), did_you_mean(**text, field.choices));
    }
  }
}

void declare_options(OptionTable& table, const std::string& section, const Fields& fields) {
  for (const auto& field : fields) {
    const auto& at_home = field.section.empty() ? section : field.section;
    if (auto* const* json = std::get_if<Json*>(&field.value)) {
      declare_json(table, at_home, field, **json);
      continue;
    }
    auto& option = std::visit(
        [&](auto* at) -> Option& {
          using T = std::remove_pointer_t<decltype(at)>;
          if constexpr (std::is_same_v<T, Json>) {
            throw InternalError("unreachable");
          } else {
            return table.add(at_home, field.name, *at, field.help);
          }
        },
        field.value);
    if (!field.choices.empty()) {
      option.choice(field.choices);
      option.parse = [&option, before = option.parse,
                      instead = field.instead](const std::string& text) {
        for (const auto& [other, own] : instead) {
          if (other != text) continue;
          fail<UsageError>("config", "{} = '{}' is not here; try {} instead", option.key(), text,
                           own);
        }
        before(text);
      };
    } else if (!std::isinf(field.low)) {
      option.within(field.low, field.high);
    }
    for (const auto& alias : field.aliases) option.alias(alias);
    const auto& [other, values] = field.only_with;
    if (!other.empty()) option.only_with(other, values);
  }
}

}  // namespace convoy::models
