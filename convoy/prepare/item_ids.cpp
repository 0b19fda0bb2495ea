#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/prepare/item_table.h"

namespace convoy::prepare {

namespace {

/// Number of items of each category, by id - 1.
std::vector<int64_t> item_counts_of(const ItemFeature& feature) {
  std::vector<int64_t> out(feature.values.size());
  for (const int64_t id : feature.ids) ++out[static_cast<size_t>(id - 1)];
  return out;
}

/// Ids of the categories of `feature`. New ones are appended to `values`.
std::vector<int64_t> new_ids(const ItemFeature& feature, std::vector<std::string>& values) {
  std::unordered_map<std::string, int64_t> known;
  for (const auto& value : values) known.emplace(value, std::ssize(known) + 1);
  const auto counts = item_counts_of(feature);
  std::vector<size_t> order(feature.values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, [&](size_t a, size_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : feature.values[a] < feature.values[b];
  });
  std::vector<int64_t> out(feature.values.size());
  for (const size_t code : order) {
    const auto [found, is_new] = known.emplace(feature.values[code], std::ssize(known) + 1);
    if (is_new) values.push_back(feature.values[code]);
    out[code] = found->second;
  }
  return out;
}

/// Throws where a feature of an earlier preparation has another kind, width or scale.
void check_form(const ItemFeature& now, const ItemFeature& before, const std::string& where) {
  const auto form = [](const ItemFeature& feature) {
    const auto steps = join(feature.scale.steps());
    return fmt::format("{}{}{}", name_of(feature.kind),
                       feature.kind == ItemKind::Vector ? fmt::format(" of {}", feature.width) : "",
                       steps.empty() ? "" : " with " + steps);
  };
  if (form(now) == form(before)) return;
  fail<FileError>("prepare",
                  "the item feature '{}' is {}, and in {} {}; expected the same, since one model "
                  "reads both; try --item-tower as before",
                  now.name, form(now), where, form(before));
}

}  // namespace

ItemFeatures features_by_id(const TableFeatures& table, const std::vector<Item>& items,
                            const ItemFeatures& earlier, const std::string& earlier_name) {
  std::unordered_map<std::string_view, int64_t> rows;  // 1, 2, ... as ids
  for (const auto& raw_id : table.raw_ids) rows.emplace(raw_id, std::ssize(rows) + 1);
  ItemFeatures out;
  for (const auto& own : table.features.features) {
    ItemFeature feature{.name = own.name, .kind = own.kind, .scale = own.scale, .width = own.width};
    const auto* before = earlier.find(own.name);
    if (before == nullptr && !earlier.empty()) {
      fail<FileError>(
          "prepare",
          "{} has no item feature '{}', as --item-tower asks for; expected its features; "
          "try --item-tower as before",
          earlier_name, own.name);
    }
    if (before != nullptr) {
      check_form(own, *before, earlier_name);
      feature.values = before->values;
    }
    auto renumbered = own;
    const auto ids = new_ids(own, feature.values);
    for (auto& id : renumbered.ids) id = ids[static_cast<size_t>(id - 1)];
    for (const auto& item : items) {
      const auto row = rows.find(item.raw_id);
      if (row != rows.end()) {
        feature.add_item_of(renumbered, row->second);
        std::sort(feature.ids.end() - std::ssize(renumbered.ids_of(row->second)),
                  feature.ids.end());
      } else if (before != nullptr && item.id <= before->num_items()) {
        feature.add_item_of(*before, item.id);
      } else {
        feature.end_item();
      }
    }
    out.features.push_back(std::move(feature));
  }
  return out;
}

}  // namespace convoy::prepare
