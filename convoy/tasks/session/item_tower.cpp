#include "convoy/tasks/session/item_tower.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/tasks/session/item_tower_values.h"
#include "convoy/tasks/session/recommend.h"

namespace convoy::tasks {

namespace fs = std::filesystem;

namespace {

BesideData kept_in(const fs::path& folder) {
  return [folder](const std::string& name) { return kept_file(folder, name); };
}

models::ItemTowerFeature tower_feature_of(const prepare::ItemFeature& feature) {
  models::ItemTowerFeature out{.name = feature.name};
  if (feature.kind == prepare::ItemKind::Categorical) {
    out.cardinality = std::ssize(feature.values) + 1;
  } else {
    out.width = feature.width;
  }
  return out;
}

/// Throws where features of newer data have another form, or other ids of categories.
void check_newer(const prepare::ItemFeature& own, const prepare::ItemFeature* newer,
                 const fs::path& where) {
  const auto refuse = [&](const std::string& what) {
    fail<FileError>("tasks",
                    "{} has {}, unlike the run; expected item features that keep their form; try "
                    "convoy data sessions --items FILE --item-tower with --ids-from the data of "
                    "that run",
                    where.string(), what);
  };
  if (newer == nullptr) refuse("no item feature '" + own.name + "'");
  const bool alike =
      newer->kind == own.kind && newer->width == own.width && newer->scale == own.scale;
  if (!alike) refuse("another kind, width or scale of '" + own.name + "'");
  const auto shared = std::min(own.values.size(), newer->values.size());
  const auto differ = std::ranges::mismatch(
      own.values.begin(), own.values.begin() + static_cast<int64_t>(shared), newer->values.begin(),
      newer->values.begin() + static_cast<int64_t>(shared));
  if (differ.in1 != own.values.begin() + static_cast<int64_t>(shared)) {
    refuse(fmt::format("'{}' in the place of '{}' among the values of '{}'", *differ.in2,
                       *differ.in1, own.name));
  }
}

/// Adds the items of `newer` beyond those of `features`.
void add_newer(const prepare::ItemFeatures& newer, const fs::path& where,
               prepare::ItemFeatures& features) {
  for (auto& own : features.features) {
    const auto* there = newer.find(own.name);
    check_newer(own, there, where);
    if (there->values.size() > own.values.size()) own.values = there->values;
    for (int64_t id = own.num_items() + 1; id <= there->num_items(); ++id) {
      own.add_item_of(*there, id);
    }
  }
}

/// Names and widths of the features that are numbers, in the order of the columns of their map.
std::vector<std::pair<std::string, int64_t>> columns_of_numbers(
    const std::vector<models::ItemTowerFeature>& tower) {
  std::vector<std::pair<std::string, int64_t>> out;
  for (const auto& feature : tower) {
    if (!feature.categorical()) out.emplace_back(feature.name, feature.width);
  }
  return out;
}

/// Takes mean and deviation of numbers from the run in `earlier`.
void take_scales_of(const fs::path& earlier, models::SessionConfig& model) {
  const auto file = earlier / "config.json";
  models::SessionConfig before;
  before.read_json(parse_json(read_file(file), file.string()), file.string());
  for (auto& own : model.item_tower) {
    const auto there =
        std::ranges::find(before.item_tower, own.name, &models::ItemTowerFeature::name);
    if (there == before.item_tower.end() || there->categorical() != own.categorical()) {
      fail<FileError>("tasks",
                      "the model in {} has no item feature '{}' as this one does; expected its "
                      "--item_tower; try its run.toml as the configuration file",
                      earlier.string(), own.name);
    }
    own.mean = there->mean;
    own.deviation = there->deviation;
  }
  if (columns_of_numbers(before.item_tower) == columns_of_numbers(model.item_tower)) return;
  std::vector<std::string> names;
  for (const auto& feature : before.item_tower) names.push_back(feature.name);
  fail<FileError>("tasks",
                  "the model in {} has other numbers of items, or in another order, by which its "
                  "weights go; try --item_tower {}",
                  earlier.string(), fmt::join(names, ","));
}

/// Throws where the features of the run in `earlier` have another form, or other ids of categories.
void check_earlier(const prepare::ItemFeatures& now, const fs::path& earlier, const fs::path& where,
                   const models::SessionConfig& model) {
  const auto before = item_features(kept_in(earlier));
  for (const auto& own : model.item_tower) {
    const auto* there = before.find(own.name);
    if (there != nullptr) check_newer(*there, now.find(own.name), where.parent_path());
  }
}

/// Sets the model's values from these features, and marks the items that they describe as known.
void take_values(const prepare::ItemFeatures& features, models::SessionConfig& model,
                 KnownIdsOfModel& known) {
  auto tower = item_tower_values(model, features, known.items);
  known.trained = known.items;
  std::vector<bool> knows(static_cast<size_t>(tower.values->num_items()));
  for (int64_t id = 0; id < std::ssize(knows); ++id) {
    knows[static_cast<size_t>(id)] = known.items.knows(id) || tower.told.knows(id);
  }
  known.items = KnownItems(std::move(knows));
  model.item_values = std::move(tower.values);
  model.unseen_items = known.items.unseen();
}

prepare::ItemFeatures features_of_run(const fs::path& folder, const models::SessionConfig& model) {
  auto out = item_features(kept_in(folder));
  for (const auto& own : model.item_tower) {
    if (out.find(own.name) != nullptr) continue;
    fail<FileError>("tasks",
                    "{} has no {} with '{}', which its model reads of items; expected the whole "
                    "folder of the run",
                    folder.string(), prepare::kItemFeaturesFile, own.name);
  }
  return out;
}

}  // namespace

prepare::ItemFeatures item_features(const BesideData& data) {
  const auto table = data(prepare::kItemFeaturesFile), info = data(prepare::kItemFeaturesInfo);
  if (table.empty() || info.empty()) return {};
  return prepare::ItemFeatures::load(table, info);
}

void take_item_tower(SessionArguments& arguments) {
  auto& model = arguments.model;
  model.item_tower.clear();
  if (arguments.item_tower.empty()) return;
  const auto& data = arguments.data;
  const auto features =
      item_features([&](const std::string& name) { return data.beside_schema(name); });
  std::vector<std::string> known;
  for (const auto& feature : features.features) known.push_back(feature.name);
  if (known.empty()) {
    fail<UsageError>("data",
                     "model.item_tower = {} reads {} beside {}, which is not there; try convoy "
                     "data sessions --items FILE --item-tower {}",
                     join(arguments.item_tower), prepare::kItemFeaturesFile, data.schema_file(),
                     fmt::format("{}", fmt::join(arguments.item_tower, ",")));
  }
  for (const auto& name : arguments.item_tower) {
    const auto* feature = features.find(name);
    if (feature == nullptr) {
      fail<UsageError>("data",
                       "model.item_tower has '{}', which {} does not; expected some of {}{}", name,
                       prepare::kItemFeaturesFile, join(known), did_you_mean(name, known));
    }
    if (std::ranges::count(arguments.item_tower, name) > 1) {
      fail<UsageError>("data", "model.item_tower has '{}' twice; expected each once", name);
    }
    model.item_tower.push_back(tower_feature_of(*feature));
  }
  model.check();
  model.item_values =
      item_tower_values(model, features, KnownItems(model.item().cardinality)).values;
}

void settle_item_tower(const SessionArguments& arguments, const fs::path& earlier,
                       models::SessionConfig& model, KnownIdsOfModel& known) {
  if (model.item_tower.empty()) return;
  const auto& data = arguments.data;
  const auto features =
      item_features([&](const std::string& name) { return data.beside_schema(name); });
  if (!earlier.empty()) check_earlier(features, earlier, data.schema_file(), model);
  if (earlier.empty()) {
    measure_item_numbers(features, known.items, model);
  } else {
    take_scales_of(earlier, model);
  }
  take_values(features, model, known);
}

bool open_item_tower(const fs::path& folder, const BesideData& newer, models::SessionConfig& model,
                     KnownIdsOfModel& known) {
  if (model.item_tower.empty()) return false;
  auto features = features_of_run(folder, model);
  const auto own = features.num_items();
  if (const auto more = item_features(newer); more.num_items() > own) {
    add_newer(more, newer(prepare::kItemFeaturesInfo), features);
  }
  take_values(features, model, known);
  return features.num_items() > own;
}

int64_t num_ranked_items(const models::SessionConfig& model) {
  return (model.item_values ? model.item_values->num_items() : model.item().cardinality) - 1;
}

}  // namespace convoy::tasks
