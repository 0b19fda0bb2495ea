#include <fmt/ranges.h>

#include "convoy/base/options.h"
#include "convoy/base/text.h"

// Texts of an option table: TOML, --help, and the options page of the docs.
namespace convoy {

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
  auto out = help_of([all](const Option& option) { return all || option.everyday; });
  std::vector<std::string> others;
  for (const auto& other : others_) others.push_back(fmt::format("--{}", other.name));
  if (all && !others.empty()) {
    out += "\n" + wrap("Answered for other programs' command lines: " + join(others), 2) + "\n";
  }
  return out;
}

std::string OptionTable::help_of(const std::function<bool(const Option&)>& shown) const {
  constexpr size_t kFlagColumns = 42;
  std::string out;
  std::string section;
  for (const auto& option : options_) {
    if (!shown(option)) continue;
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
  std::vector<std::string> ignored, refused;
  for (const auto& other : others_) {
    const bool no_effect = other.kind == OtherFlag::Switch || other.kind == OtherFlag::Value;
    (no_effect ? ignored : refused).push_back(fmt::format("`--{}` ({})", other.name, other.why));
  }
  if (!ignored.empty()) out += "\nTaken without effect: " + join(ignored) + ".\n";
  if (!refused.empty()) out += "\nRefused, or refused as false: " + join(refused) + ".\n";
  return out;
}

}  // namespace convoy
