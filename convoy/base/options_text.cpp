#include <fmt/ranges.h>

#include "convoy/base/options.h"
#include "convoy/base/text.h"

// What a table shows: TOML, --help, the page in docs.
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
