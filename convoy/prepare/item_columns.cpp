#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/prepare/item_table.h"

namespace convoy::prepare {

namespace {

constexpr const char* kUsualSeparator = "|";

[[noreturn]] void wrong_column(const std::string& part) {
  fail<UsageError>("prepare",
                   "--item-tower has '{}'; expected name[:categorical|continuous|vector]"
                   "[:split|split=SEPARATOR][:log1p|/N|*N], and no column called {}; try "
                   "genre:split,price:log1p",
                   part, kItemFeatureId);
}

/// Applies one step of an option, the part behind a column's name, to the column.
void take_step(const std::string& step, const std::string& part, ItemColumn& column) {
  for (const auto kind : {ItemKind::Categorical, ItemKind::Continuous, ItemKind::Vector}) {
    if (step != name_of(kind)) continue;
    if (column.kind && *column.kind != kind) wrong_column(part);
    column.kind = kind;
    return;
  }
  if (step == "split") {
    column.separator = kUsualSeparator;
  } else if (step.starts_with("split=") && step.size() > 6) {
    column.separator = step.substr(6);
  } else if (!column.scale.add(step)) {
    wrong_column(part);
  }
}

}  // namespace

std::vector<ItemColumn> parse_item_columns(const std::string& text) {
  std::vector<ItemColumn> out;
  if (trim(text).empty()) return out;
  for (const auto& part : split(text, ',')) {
    const auto pieces = split(part, ':');
    ItemColumn column{.name = trim(pieces.front())};
    if (column.name.empty() || column.name == kItemFeatureId) wrong_column(part);
    for (size_t i = 1; i < pieces.size(); ++i) take_step(pieces[i], part, column);
    const bool splits = !column.separator.empty(), scales = !column.scale.is_plain();
    if (splits && column.kind.value_or(ItemKind::Categorical) != ItemKind::Categorical) {
      wrong_column(part);
    }
    if (scales && (splits || column.kind.value_or(ItemKind::Continuous) != ItemKind::Continuous)) {
      wrong_column(part);
    }
    if (splits) column.kind = ItemKind::Categorical;
    if (scales) column.kind = ItemKind::Continuous;
    const auto same = [&](const ItemColumn& other) { return other.name == column.name; };
    if (std::ranges::any_of(out, same)) {
      fail<UsageError>("prepare", "--item-tower names '{}' twice; expected each once", column.name);
    }
    out.push_back(std::move(column));
  }
  return out;
}

}  // namespace convoy::prepare
