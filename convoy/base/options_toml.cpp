#include <sstream>
#define TOML_EXCEPTIONS 1
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/options.h"
#include "convoy/base/text.h"

namespace convoy {

namespace {

std::string position(const std::string& where, const toml::source_region& region) {
  return fmt::format("{} line {} column {}", where, region.begin.line, region.begin.column);
}

/// The value as the text that Option::parse understands.
std::string plain(const toml::node& node, const std::string& key, const std::string& where) {
  if (auto text = node.as_string()) return text->get();
  if (auto flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (auto whole = node.as_integer()) return std::to_string(whole->get());
  if (auto number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (auto array = node.as_array()) {
    std::vector<std::string> items;
    for (const auto& item : *array) items.push_back(plain(item, key, where));
    return join(items, ",");
  }
  fail<UsageError>("config",
                   "{} has a value of an unsupported kind in {}; expected a number, "
                   "text, true, false or a list",
                   key, position(where, node.source()));
}

}  // namespace

void OptionTable::read_toml(const std::filesystem::path& path) {
  read_toml_text(read_file(path), path.string());
}

void OptionTable::read_toml_text(std::string_view text, const std::string& where) {
  toml::table table;
  try {
    table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    fail<UsageError>("config", "{}: {}", position(where, error.source()), error.description());
  }
  const auto known = sections();
  for (const auto& [name, node] : table) {
    std::string section(name.str());
    const auto* body = node.as_table();
    if (body == nullptr) {
      fail<UsageError>("config",
                       "'{}' in {} stands outside a section; expected it under one of "
                       "[{}]",
                       section, position(where, node.source()), join(known, "], ["));
    }
    if (std::find(known.begin(), known.end(), section) == known.end()) {
      fail<UsageError>("config", "unknown section [{}] in {}; expected one of [{}]{}", section,
                       position(where, node.source()), join(known, "], ["),
                       did_you_mean(section, known));
    }
    for (const auto& [option, value] : *body) {
      auto key = section + "." + std::string(option.str());
      auto at = position(where, value.source());
      set(key, plain(value, key, at), at);
    }
  }
}

}  // namespace convoy
