#include "convoy/prepare/sessions_items.h"

#include <algorithm>
#include <unordered_set>

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::prepare {

namespace fs = std::filesystem;

namespace {

/// A table without rows that has the features of an earlier preparation.
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
    table_ = read_item_table({options.items.file, options.items.key, options.item_tower});
  }
}

int64_t SessionItemTower::add_items(std::vector<Item>& items) const {
  std::unordered_set<std::string_view> known;
  for (const auto& item : items) known.insert(item.raw_id);
  std::vector<const std::string*> added;
  for (const auto& raw_id : table_.raw_ids) {
    if (!known.contains(raw_id)) added.push_back(&raw_id);
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
