#include "convoy/base/options.h"

#include <algorithm>
#include <filesystem>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy {

namespace {

std::string underscored(std::string_view key) {
  std::string out(key);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

}  // namespace

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

void OptionTable::reset(const std::vector<std::string>& keys) {
  for (const auto& key : keys) {
    auto* option = const_cast<Option*>(find(key));
    internal_check(option != nullptr, "config", "there is no option {}", key);
    option->reset();
  }
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
    const OtherFlag* other = option == nullptr ? find_other(key) : nullptr;
    if (option == nullptr && other == nullptr) {
      rest.push_back(arg);
      continue;
    }
    const auto can_be = [&](const std::string& text) {
      return option != nullptr && std::ranges::find(option->choices, text) != option->choices.end();
    };
    // A word, where no file is meant: refused as a value, not as an argument too many.
    const auto is_wrong_value = [&](const std::string& text) {
      std::error_code error;
      return can_be("true") && !text.empty() && text[0] != '-' &&
             text.find_first_of("./") == std::string::npos && !std::filesystem::exists(text, error);
    };
    const bool is_bool =
        other == nullptr ? option->type == "bool" || can_be("true") : other->is_bool();
    std::string value;
    bool ignored = false;
    if (other != nullptr && other->kind == OtherFlag::Refused) take_other(*other, value);
    if (equals != std::string::npos) {
      value = arg.substr(equals + 1);
    } else if (is_bool) {
      const bool follows =
          i + 1 < args.size() &&
          (can_be(args[i + 1]) || parse_bool(args[i + 1], ignored) || is_wrong_value(args[i + 1]));
      value = follows ? args[++i] : "true";
    } else if (i + 1 < args.size() && args[i + 1].rfind("--", 0) != 0) {
      value = args[++i];
    } else {
      fail<UsageError>("config", "option --{} needs a value; got none; try --{} {}", key, key,
                       other == nullptr ? option->initial : "VALUE");
    }
    if (other != nullptr) {
      take_other(*other, value);
      continue;
    }
    set(key, value, "the command line");
    const_cast<Option*>(option)->typed = true;
  }
  return rest;
}

const OtherFlag* OptionTable::find_other(std::string_view key) const {
  const auto wanted = underscored(key);
  const auto found = std::find_if(others_.begin(), others_.end(),
                                  [&](const OtherFlag& flag) { return wanted == flag.name; });
  return found == others_.end() ? nullptr : &*found;
}

void OptionTable::take_other(const OtherFlag& flag, const std::string& value) {
  bool on = true;
  if (flag.is_bool() && !parse_bool(value, on)) {
    fail<UsageError>("config", "--{} = '{}' is not a boolean; expected true or false", flag.name,
                     value);
  }
  if (flag.kind == OtherFlag::Refused) fail<UsageError>("config", "--{}: {}", flag.name, flag.why);
  if (flag.kind == OtherFlag::AlwaysOn) {
    if (!on) fail<UsageError>("config", "--{} false: {}", flag.name, flag.why);
    return;
  }
  const auto text = fmt::format("--{} ({})", flag.name, flag.why);
  if (std::find(without_effect_.begin(), without_effect_.end(), text) == without_effect_.end()) {
    without_effect_.push_back(text);
  }
}

std::string OptionTable::without_effect() const {
  return without_effect_.empty() ? "" : "without effect here: " + join(without_effect_);
}

void OptionTable::check() const {
  for (const auto& option : options_) {
    check_text(option, option.plain());
    double number = 0;
    if (option.number_ && parse_number(option.plain(), number) && !std::isfinite(number)) {
      fail<UsageError>("config", "{} = {} is not finite; expected a number", option.key(),
                       option.plain());
    }
    if (option.check) option.check();
    check_effect(option);
  }
}

void OptionTable::check_effect(const Option& option) const {
  if (option.other_.empty() || !asked_for(option.key())) return;
  const Option* other = find(option.other_);
  internal_check(other != nullptr, "config", "there is no option {}", option.other_);
  const auto& wanted = option.other_values_;
  const auto value = other->plain();
  const bool any = wanted.empty(), given = !value.empty() && value != "[]";
  if (any ? given : std::find(wanted.begin(), wanted.end(), value) != wanted.end()) return;
  fail<UsageError>("config", "{} = {} has no effect {} {}; try --{} {}", option.key(),
                   option.plain(), any ? "without" : "with",
                   any ? other->key() : fmt::format("{} = {}", other->key(), value), other->name,
                   any ? "VALUE" : wanted.front());
}

}  // namespace convoy
