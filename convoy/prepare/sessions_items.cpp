#include "convoy/prepare/sessions_items.h"

#include <algorithm>
#include <unordered_set>

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::prepare {

namespace fs = std::filesystem;

namespace {

/// Table without rows, with the features of an earlier preparation.
TableFeatures without_rows(const ItemFeatures& earlier) {
  TableFeatures out;
  for (const auto& feature : earlier.features) {
    out.features.features.push_back({.name = feature.name,
                                     .kind = feature.kind,
                                     .scale = feature.scale,
                                     .width = feature.width});
  }
  return out;
}

/// Columns with the kinds that an earlier preparation gave them.
std::vector<ItemColumn> as_before(std::vector<ItemColumn> columns, const ItemFeatures& earlier,
                                  const std::string& earlier_name) {
  for (auto& column : columns) {
    const auto* before = earlier.find(column.name);
    if (before == nullptr) continue;
    if (!column.kind) column.kind = before->kind;
    column.may_be_empty = true;
  }
  for (const auto& before : earlier.features) {
    if (std::ranges::count(columns, before.name, &ItemColumn::name) > 0) continue;
    fail<UsageError>("prepare",
                     "--item-tower does not name '{}', which {} has of all items; they would lose "
                     "it; try --item-tower with it, too",
                     before.name, earlier_name);
  }
  return columns;
}

}  // namespace

SessionItemTower::SessionItemTower(const SessionOptions& options) {
  if (!options.item_tower.empty() && options.items.file.empty()) {
    fail<UsageError>("prepare", "--item-tower has no effect without a table; try --items FILE");
  }
  const auto info = options.ids_from / kItemFeaturesInfo;
  if (!options.ids_from.empty() && fs::exists(info)) {
    earlier_ = ItemFeatures::load(options.ids_from / kItemFeaturesFile, info);
    earlier_name_ = info.string();
  }
  if (options.item_tower.empty()) {
    table_ = without_rows(earlier_);
  } else {
    const auto columns = as_before(options.item_tower, earlier_, earlier_name_);
    table_ = read_item_table({options.items.file, options.items.key, columns});
    for (auto& feature : table_.features.features) {
      const auto* before = earlier_.find(feature.name);
      if (before != nullptr && feature.numbers.empty()) feature.width = before->width;
    }
  }
  file_ = options.items.file;
  goes_on_ = !options.ids_from.empty();
}

int64_t SessionItemTower::add_items(std::vector<Item>& items) const {
  std::unordered_set<std::string_view> known;
  for (const auto& item : items) known.insert(item.raw_id);
  std::vector<const std::string*> added;
  for (const auto& raw_id : table_.raw_ids) {
    if (!known.contains(raw_id)) added.push_back(&raw_id);
  }
  if (!goes_on_ && !items.empty() && !added.empty() && added.size() == table_.raw_ids.size()) {
    fail<FileError>("prepare",
                    "{} has none of the item ids of the events: '{}', but the events '{}'; try "
                    "--items-key COLUMN, or ids written alike",
                    file_.string(), *added.front(), items.front().raw_id);
  }
  for (const auto* raw_id : added) items.push_back({std::ssize(items) + 1, *raw_id, 0, ""});
  return std::ssize(added);
}

int64_t SessionItemTower::write(const std::vector<Item>& items, FileSet& files) const {
  if (table_.features.empty()) return 0;
  const auto features = features_by_id(table_, items, earlier_, earlier_name_);
  const auto& file = files.add(kItemFeaturesFile);
  const auto text = write_item_features(features, file, files.last());
  write_file(files.add(kItemFeaturesInfo), text);
  int64_t count = 0;
  for (int64_t id = 1; id <= features.num_items(); ++id) {
    count += std::ranges::any_of(features.features,
                                 [&](const auto& feature) { return !feature.is_missing(id); });
  }
  return count;
}

}  // namespace convoy::prepare
