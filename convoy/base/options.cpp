#include "convoy/base/options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy {

namespace {

bool parse_bool(const std::string& text, bool& out) {
  auto is = [&](std::initializer_list<const char*> words) {
    return std::any_of(words.begin(), words.end(), [&](const char* word) { return text == word; });
  };
  if (is({"true", "True", "1", "yes", "on"})) return out = true, true;
  if (is({"false", "False", "0", "no", "off"})) return out = false, true;
  return false;
}

bool is_none(const std::string& text) {
  return text == "none" || text == "None" || text == "null" || text.empty();
}

std::string number_text(double value) {
  auto text = fmt::format("{}", value);
  bool plain = text.find_first_not_of("-0123456789") == std::string::npos;
  return plain ? text + ".0" : text;
}

std::string underscored(std::string_view key) {
  std::string out(key);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

/// The text between double quotes that begins at `at`, as toml_text() writes it; `at` moves behind
/// it.
std::string unquote(std::string_view text, size_t& at) {
  std::string out;
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\' && at + 5 < text.size() && text[at + 1] == 'u') {
      out += static_cast<char>(std::stoi(std::string(text.substr(at + 2, 4)), nullptr, 16));
      at += 5;
    } else {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      out += text[at];
    }
  }
  ++at;
  return out;
}

/// 5,10 or [5, 10] or ["a,b", "c"].
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
T parse_value(const Option& option, const std::string& text, const char* expected) {
  T value{};
  if (!parse_number(text, value)) {
    fail<UsageError>("config", "{} = '{}' is not {}", option.key(), text, expected);
  }
  return value;
}

constexpr const char* kNumber = "a number; write for instance 0.001 or 1e-3";
constexpr const char* kInteger = "a whole number";

}  // namespace

Option& Option::choice(std::vector<std::string> allowed) {
  choices = std::move(allowed);
  auto before = std::move(parse);
  parse = [this, before](const std::string& text) {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
      fail<UsageError>("config", "{} = '{}' is unknown; expected one of {}{}", key(), text,
                       join(choices), did_you_mean(text, choices));
    }
    before(text);
  };
  return *this;
}

Option& Option::alias(std::string other) {
  aliases.push_back(std::move(other));
  return *this;
}

Option& Option::path() {
  kept = [this] {
    const auto text = toml();
    if (text.size() <= 2) return text;
    const std::filesystem::path given = text.substr(1, text.size() - 2);
    return '"' + std::filesystem::absolute(given).lexically_normal().string() + '"';
  };
  return *this;
}

Option& Option::once() {
  kept = nullptr;
  return *this;
}

Option& Option::at_least(double low) {
  return within(low, HUGE_VAL);
}

Option& Option::within(double low, double high) {
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
  o.parse = [&o, &target](const std::string& text) {
    target = parse_value<int64_t>(o, text, kInteger);
  };
  o.toml = [&target] { return std::to_string(target); };
  o.number_ = [&target] { return static_cast<double>(target); };
  o.initial = o.toml();
  return o;
}

Option& OptionTable::add(std::string section, std::string name, double& target, std::string help) {
  auto& o = push(std::move(section), std::move(name), std::move(help), "number");
  o.parse = [&o, &target](const std::string& text) {
    const auto value = parse_value<double>(o, text, kNumber);
    if (!std::isfinite(value)) {
      fail<UsageError>("config", "{} = {} is not finite; write for instance 0.001 or 1e-3", o.key(),
                       text);
    }
    target = value;
  };
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
    if (!is_none(text)) target = parse_value<int64_t>(o, text, kInteger);
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
    if (!is_none(text)) target = parse_value<double>(o, text, kNumber);
  };
  o.toml = [&target] { return target ? number_text(*target) : toml_text("none"); };
  o.number_ = [&target] { return target ? *target : NAN; };
  o.initial = o.toml();
  return o;
}

const Option* OptionTable::find(std::string_view key) const {
  auto wanted = underscored(key);
  for (const auto& option : options_) {
    if (wanted == option.key() || wanted == option.name) return &option;
    for (const auto& alias : option.aliases) {
      if (wanted == alias || wanted == option.section + "." + alias) return &option;
    }
  }
  return nullptr;
}

void OptionTable::hint(const OptionHint& hint) {
  auto* option = const_cast<Option*>(find(hint.option));
  internal_check(option != nullptr, "config", "there is no option {}", hint.option);
  option->everyday = hint.everyday;
  option->hints = hint.others;
}

std::string OptionTable::suggest(std::string_view key, std::vector<std::string> more) const {
  const auto wanted = underscored(key);
  const auto dot = wanted.find('.');
  const auto word = dot == std::string::npos ? wanted : wanted.substr(dot + 1);
  for (const auto& option : options_) {
    if (std::find(option.hints.begin(), option.hints.end(), word) == option.hints.end()) continue;
    return fmt::format(", did you mean '{}'?",
                       dot == std::string::npos ? option.name : option.key());
  }
  for (const auto& option : options_) {
    more.push_back(dot == std::string::npos ? option.name : option.key());
  }
  return did_you_mean(wanted, more);
}

bool OptionTable::asked_for(std::string_view key) const {
  const Option* option = find(key);
  internal_check(option != nullptr, "config", "there is no option {}", key);
  return option->typed || option->toml() != option->initial;
}

std::vector<std::string> OptionTable::sections() const {
  std::vector<std::string> out;
  for (const auto& option : options_) {
    if (std::find(out.begin(), out.end(), option.section) == out.end()) {
      out.push_back(option.section);
    }
  }
  return out;
}

std::vector<std::string> OptionTable::keys() const {
  std::vector<std::string> out;
  for (const auto& option : options_) out.push_back(option.key());
  return out;
}

void OptionTable::set(std::string_view key, const std::string& value, const std::string& source) {
  auto* option = const_cast<Option*>(find(key));
  if (option == nullptr) {
    fail<UsageError>("config", "unknown option '{}' in {}{}", key, source, suggest(key));
  }
  try {
    option->parse(value);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{} (from {})", error.what(), source));
  }
  option->source = source;
}

std::vector<std::string> OptionTable::take_overrides(const std::vector<std::string>& args) {
  std::vector<std::string> rest;
  for (size_t i = 0; i < args.size(); ++i) {
    const auto& arg = args[i];
    if (arg == "--") {
      rest.insert(rest.end(), args.begin() + static_cast<std::ptrdiff_t>(i), args.end());
      break;
    }
    if (arg.rfind("--", 0) != 0) {
      rest.push_back(arg);
      continue;
    }
    auto equals = arg.find('=');
    auto key = arg.substr(2, equals == std::string::npos ? std::string::npos : equals - 2);
    const Option* option = find(key);
    if (option == nullptr) {
      rest.push_back(arg);
      continue;
    }
    std::string value;
    bool ignored = false;
    if (equals != std::string::npos) {
      value = arg.substr(equals + 1);
    } else if (option->type == "bool") {
      bool follows = i + 1 < args.size() && parse_bool(args[i + 1], ignored);
      value = follows ? args[++i] : "true";
    } else if (i + 1 < args.size() && args[i + 1].rfind("--", 0) != 0) {
      value = args[++i];
    } else {
      fail<UsageError>("config", "option --{} needs a value; got none; try --{} {}", key, key,
                       option->initial);
    }
    set(key, value, "the command line");
    const_cast<Option*>(option)->typed = true;
  }
  return rest;
}

void OptionTable::check() const {
  for (const auto& option : options_) {
    if (option.check) option.check();
  }
}

std::string OptionTable::to_toml(bool with_help) const {
  std::string out;
  for (const auto& section : sections()) {
    out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section);
    for (const auto& option : options_) {
      if (option.section != section) continue;
      if (with_help) out += fmt::format("# {}\n", option.help);
      out += fmt::format("{} = {}\n", option.name, option.toml());
    }
  }
  return out;
}

std::string OptionTable::to_kept_toml() const {
  std::string out;
  for (const auto& section : sections()) {
    out += fmt::format("{}[{}]\n", out.empty() ? "" : "\n", section);
    for (const auto& option : options_) {
      if (option.section == section && option.kept) {
        out += fmt::format("{} = {}\n", option.name, option.kept());
      }
    }
  }
  return out;
}

std::string OptionTable::help_text(bool all) const {
  constexpr size_t kFlagColumns = 42;
  std::string out;
  std::string section;
  for (const auto& option : options_) {
    if (!all && !option.everyday) continue;
    if (option.section != section) {
      section = option.section;
      out += fmt::format("\n[{}]\n", section);
    }
    auto flag = "--" + option.name;
    for (const auto& alias : option.aliases) flag += ", --" + alias;
    if (option.type != "bool") flag += option.type == "list" ? " A,B,..." : " " + option.type;
    auto more = option.choices.empty() ? "" : fmt::format(" ({})", fmt::join(option.choices, ", "));
    const auto line =
        fmt::format("  {:<{}} {}{} [{}]", flag, kFlagColumns, option.help, more, option.initial);
    out += wrap(line, kFlagColumns + 3) + "\n";
  }
  return out;
}

std::string OptionTable::to_markdown() const {
  std::string out;
  std::string section;
  for (const auto& option : options_) {
    if (option.section != section) {
      section = option.section;
      out += fmt::format("\n## [{}]\n\n| option | type | default | meaning |\n|---|---|---|---|\n",
                         section);
    }
    auto type = option.choices.empty() ? option.type : join(option.choices, ", ");
    auto aliases =
        option.aliases.empty() ? "" : fmt::format(" (`{}`)", fmt::join(option.aliases, "`, `"));
    out += fmt::format("| `{}`{} | {} | `{}` | {} |\n", option.name, aliases, type, option.initial,
                       option.help);
  }
  return out;
}

}  // namespace convoy
