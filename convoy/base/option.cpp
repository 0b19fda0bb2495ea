#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/json.h"
#include "convoy/base/options.h"
#include "convoy/base/text.h"

// One option: conversion of its text to a value and back, and the check of its limits.
namespace convoy {

namespace {

bool is_none(const std::string& text) {
  return text == "none" || text == "None" || text == "null" || text.empty();
}

std::string number_text(double value) {
  auto text = fmt::format("{}", value);
  bool plain = text.find_first_not_of("-0123456789") == std::string::npos;
  return plain ? text + ".0" : text;
}

/// Parses the text between double quotes at `at`, as toml_text() writes it; `at` moves behind it.
std::string unquote(std::string_view text, size_t& at) {
  std::string out;
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\' && at + 1 < text.size() && text[at + 1] == 'u') {
      const std::string escape(text.substr(at, 6));
      const auto character = Json::parse('"' + escape + '"', nullptr, /*allow_exceptions=*/false);
      if (!character.is_string()) {
        fail<UsageError>("config",
                         "{} is no character; expected four hexadecimal digits, as in \\u00E9",
                         escape);
      }
      out += character.get<std::string>();
      at += 5;
    } else {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      out += text[at];
    }
  }
  ++at;
  return out;
}

/// Parses 5,10 or [5, 10] or ["a,b", "c"].
std::vector<std::string> parse_list(const std::string& text) {
  auto plain = trim(text);
  if (plain.size() >= 2 && plain.front() == '[' && plain.back() == ']') {
    plain = plain.substr(1, plain.size() - 2);
  }
  std::vector<std::string> out;
  for (size_t at = 0; at < plain.size(); ++at) {
    if (plain[at] == ' ' || plain[at] == ',') continue;
    if (plain[at] == '"') {
      out.push_back(unquote(plain, at));
      continue;
    }
    const size_t end = std::min(plain.find(',', at), plain.size());
    out.push_back(trim(plain.substr(at, end - at)));
    at = end;
  }
  return out;
}

template <class T>
T parse_value(const Option& option, const std::string& text) {
  constexpr const char* kExample = "write for instance 0.001 or 1e-3";
  T value{};
  if (!parse_number(text, value)) {
    fail<UsageError>("config", "{} = '{}' is not {}", option.key(), text,
                     std::integral<T> ? "a whole number" : fmt::format("a number; {}", kExample));
  }
  if (!std::isfinite(static_cast<double>(value))) {
    fail<UsageError>("config", "{} = {} is not finite; {}", option.key(), text, kExample);
  }
  return value;
}

void check_choice(const Option& option, const std::string& text) {
  const auto& choices = option.choices;
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return;
  fail<UsageError>("config", "{} = '{}' is unknown; expected one of {}{}", option.key(), text,
                   join(choices), did_you_mean(text, choices));
}

}  // namespace

Option& Option::choice(std::vector<std::string> allowed) {
  choices = std::move(allowed);
  auto before = std::move(parse);
  parse = [this, before](const std::string& text) {
    check_choice(*this, text);
    before(text);
  };
  auto earlier = std::move(check);
  check = [this, earlier] {  // a program may have set the variable itself
    if (earlier) earlier();
    if (type == "text" && !plain().empty()) check_choice(*this, plain());
  };
  return *this;
}

Option& Option::alias(std::string other) {
  aliases.push_back(std::move(other));
  return *this;
}

void check_text(const Option& option, const std::string& text) {
  if (is_utf8(text)) return;
  fail<UsageError>("config",
                   "{} = {} is not UTF-8, and the files of a run hold nothing else; try another "
                   "name",
                   option.key(), printable(text));
}

Option& Option::path() {
  if (shared_ == Shared::kValue) differs(/*if_given=*/true);  // hosts may keep it in other places
  kept = [this] {
    const std::filesystem::path given = plain();
    if (given.empty()) return toml();
    const auto whole = std::filesystem::absolute(given).lexically_normal().string();
    check_text(*this, whole);
    return toml_text(whole);
  };
  return *this;
}

Option& Option::once() {
  kept = nullptr;
  return *this;
}

Option& Option::differs(bool if_given) {
  shared_ = if_given ? Shared::kWhetherGiven : Shared::kNothing;
  return *this;
}

std::string Option::shared() const {
  if (shared_ == Shared::kNothing) return "";
  const auto value = plain();
  if (shared_ == Shared::kValue) return fmt::format("{} = {}", name, value);
  return fmt::format("{} is {}", name, value.empty() ? "not given" : "given");
}

Option& Option::at_least(double low) {
  return within(low, HUGE_VAL);
}

Option& Option::within(double low, double high) {
  internal_check(number_ != nullptr, "config", "option {} is no number to bound", key());
  auto earlier = std::move(check);
  check = [this, low, high, earlier] {
    if (earlier) earlier();
    double value = number_();
    if (std::isnan(value) || (value >= low && value <= high)) return;
    auto range = std::isinf(high) ? fmt::format("at least {}", low)
                                  : fmt::format("between {} and {}", low, high);
    fail<UsageError>("config", "{} = {} is out of range; expected {}", key(), toml(), range);
  };
  return *this;
}

Option& Option::only_with(std::string key, std::vector<std::string> values) {
  other_ = std::move(key);
  other_values_ = std::move(values);
  return *this;
}

namespace {

std::string plain_of(const std::string& toml) {
  size_t at = 0;
  return toml.starts_with('"') ? unquote(toml, at) : toml;
}

}  // namespace

std::string Option::plain() const {
  return plain_of(toml());
}

void Option::reset() {
  parse(plain_of(initial));
  source = "";
  typed = false;
}

Option& OptionTable::push(std::string section, std::string name, std::string help,
                          std::string type) {
  internal_check(find(section + "." + name) == nullptr, "config", "option {}.{} declared twice",
                 section, name);
  Option& option = options_.emplace_back();
  option.section = std::move(section);
  option.name = std::move(name);
  option.help = std::move(help);
  option.type = std::move(type);
  option.kept = [&option] { return option.toml(); };
  return option;
}

Option& OptionTable::add(std::string section, std::string name, bool& target, std::string help) {
  auto& o = push(std::move(section), std::move(name), std::move(help), "bool");
  o.parse = [&o, &target](const std::string& text) {
    if (!parse_bool(text, target)) {
      fail<UsageError>("config", "{} = '{}' is not a boolean; expected true or false", o.key(),
                       text);
    }
  };
  o.toml = [&target] { return std::string(target ? "true" : "false"); };
  o.initial = o.toml();
  return o;
}

Option& OptionTable::add(std::string section, std::string name, int64_t& target, std::string help) {
  auto& o = push(std::move(section), std::move(name), std::move(help), "integer");
  o.parse = [&o, &target](const std::string& text) { target = parse_value<int64_t>(o, text); };
  o.toml = [&target] { return std::to_string(target); };
  o.number_ = [&target] { return static_cast<double>(target); };
  o.initial = o.toml();
  return o;
}

Option& OptionTable::add(std::string section, std::string name, double& target, std::string help) {
  auto& o = push(std::move(section), std::move(name), std::move(help), "number");
  o.parse = [&o, &target](const std::string& text) { target = parse_value<double>(o, text); };
  o.toml = [&target] { return number_text(target); };
  o.number_ = [&target] { return target; };
  o.initial = o.toml();
  return o;
}

Option& OptionTable::add(std::string section, std::string name, std::string& target,
                         std::string help) {
  auto& o = push(std::move(section), std::move(name), std::move(help), "text");
  o.parse = [&target](const std::string& text) { target = text; };
  o.toml = [&target] { return toml_text(target); };
  o.initial = o.toml();
  return o;
}

Option& OptionTable::add(std::string section, std::string name, Text value, std::string help) {
  auto& o = push(std::move(section), std::move(name), std::move(help), "text");
  o.parse = std::move(value.set);
  o.toml = [get = std::move(value.get)] { return toml_text(get()); };
  o.initial = o.toml();
  return o;
}

Option& OptionTable::add_mib(std::string section, std::string name, int64_t& bytes,
                             std::string help) {
  constexpr int kMib = 20;
  auto& o = push(std::move(section), std::move(name), std::move(help), "integer");
  o.parse = [&o, &bytes](const std::string& text) {
    const auto mib = parse_value<int64_t>(o, text);
    bytes = std::clamp<int64_t>(mib, -1, INT64_MAX >> kMib) << kMib;
  };
  o.toml = [&bytes] { return std::to_string(bytes >> kMib); };
  o.number_ = [&bytes] { return static_cast<double>(bytes >> kMib); };
  o.initial = o.toml();
  return o;
}

Option& OptionTable::add(std::string section, std::string name, std::vector<std::string>& target,
                         std::string help) {
  auto& o = push(std::move(section), std::move(name), std::move(help), "list");
  o.parse = [&target](const std::string& text) { target = parse_list(text); };
  o.toml = [&target] {
    std::vector<std::string> items;
    for (const auto& item : target) items.push_back(toml_text(item));
    return "[" + join(items) + "]";
  };
  o.initial = o.toml();
  return o;
}

Option& OptionTable::add(std::string section, std::string name, std::optional<int64_t>& target,
                         std::string help) {
  auto& o = push(std::move(section), std::move(name), std::move(help), "integer");
  o.parse = [&o, &target](const std::string& text) {
    target.reset();
    if (!is_none(text)) target = parse_value<int64_t>(o, text);
  };
  o.toml = [&target] { return target ? std::to_string(*target) : toml_text("none"); };
  o.number_ = [&target] { return target ? static_cast<double>(*target) : NAN; };
  o.initial = o.toml();
  return o;
}

Option& OptionTable::add(std::string section, std::string name, std::optional<double>& target,
                         std::string help) {
  auto& o = push(std::move(section), std::move(name), std::move(help), "number");
  o.parse = [&o, &target](const std::string& text) {
    target.reset();
    if (!is_none(text)) target = parse_value<double>(o, text);
  };
  o.toml = [&target] { return target ? number_text(*target) : toml_text("none"); };
  o.number_ = [&target] { return target ? *target : NAN; };
  o.initial = o.toml();
  return o;
}

}  // namespace convoy
