#include "convoy/tasks/session/item_tower_values.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"

// Shapes: I items with padding, L most categories of an item, C numbers of an item.
namespace convoy::tasks {

namespace {

const prepare::ItemFeature& feature_named(const prepare::ItemFeatures& features,
                                          const std::string& name) {
  const auto* found = features.find(name);
  internal_check(found != nullptr, "tasks", "no item feature '{}'", name);
  return *found;
}

/// Calls a function for the items 1, 2, ... of a feature that training saw.
template <class Use>
void each_trained(const prepare::ItemFeature& feature, const KnownItems& trained, const Use& use) {
  for (int64_t id = 1; id <= feature.num_items(); ++id) {
    if (trained.knows(id)) use(id);
  }
}

/// Flags by id of a category: an item that training saw has it, and the model has a row for it.
std::vector<bool> trained_categories(const prepare::ItemFeature& feature, int64_t cardinality,
                                     const KnownItems& trained) {
  std::vector<bool> out(feature.values.size() + 1, false);
  each_trained(feature, trained, [&](int64_t item) {
    for (const int64_t id : feature.ids_of(item)) {
      out[static_cast<size_t>(id)] = id < cardinality;
    }
  });
  return out;
}

/// Categories of each item [I, L], those that training saw alone; marks the items that have any.
at::Tensor categories_of(const prepare::ItemFeature& feature, int64_t cardinality,
                         const KnownItems& trained, std::vector<bool>& told) {
  const auto num_items = std::ssize(told);
  const auto known = trained_categories(feature, cardinality, trained);
  std::vector<std::vector<int64_t>> lists(told.size());
  size_t longest = 1;
  for (int64_t item = 1; item <= std::min(feature.num_items(), num_items - 1); ++item) {
    auto& list = lists[static_cast<size_t>(item)];
    for (const int64_t id : feature.ids_of(item)) {
      if (known[static_cast<size_t>(id)]) list.push_back(id);
    }
    if (!list.empty()) told[static_cast<size_t>(item)] = true;
    longest = std::max(longest, list.size());
  }
  auto out = at::zeros({num_items, static_cast<int64_t>(longest)}, at::kLong);
  auto* ids = out.data_ptr<int64_t>();
  for (const auto& list : lists) {
    std::ranges::copy(list, ids);
    ids += longest;
  }
  return out;
}

/// Numbers of each item with a missing flag [I, width + 1]; marks the items that have numbers.
at::Tensor numbers_of(const prepare::ItemFeature& feature, const models::ItemTowerFeature& own,
                      const KnownItems& trained, std::vector<bool>& told) {
  bool some = false, some_missing = false;  // of the items that training saw
  each_trained(feature, trained,
               [&](int64_t item) { (feature.is_missing(item) ? some_missing : some) = true; });
  const auto num_items = std::ssize(told);
  const int64_t width = own.width + 1;
  auto out = at::zeros({num_items, width});
  auto* row = out.data_ptr<float>() + width;
  for (int64_t item = 1; item < num_items; ++item, row += width) {
    const bool missing = item > feature.num_items() || feature.is_missing(item);
    row[own.width] = missing && some_missing ? 1.0F : 0.0F;
    if (missing || !some) continue;
    told[static_cast<size_t>(item)] = true;
    std::ranges::transform(feature.numbers_of(item), row, [&](float number) {
      return static_cast<float>((static_cast<double>(number) - own.mean) / own.deviation);
    });
  }
  return out;
}

}  // namespace

ItemsOfTower item_tower_values(const models::SessionConfig& model,
                               const prepare::ItemFeatures& features, const KnownItems& trained) {
  const auto num_items = std::max(model.item().cardinality, features.num_items() + 1);
  std::vector<bool> told(static_cast<size_t>(num_items), false);
  auto values = std::make_shared<models::ItemTowerValues>();
  std::vector<at::Tensor> numbers;
  for (const auto& own : model.item_tower) {
    const auto& feature = feature_named(features, own.name);
    if (own.categorical()) {
      values->categories[own.name] = categories_of(feature, own.cardinality, trained, told);
    } else {
      numbers.push_back(numbers_of(feature, own, trained, told));
    }
  }
  values->numbers = numbers.empty() ? at::zeros({num_items, 0}) : at::cat(numbers, 1);
  values->trained = at::zeros({num_items}, at::kBool);
  auto* has_row = values->trained.data_ptr<bool>();
  for (int64_t id = 0; id < model.item().cardinality; ++id) has_row[id] = trained.knows(id);
  return {std::move(values), KnownItems(std::move(told))};
}

void measure_item_numbers(const prepare::ItemFeatures& features, const KnownItems& trained,
                          models::SessionConfig& model) {
  for (auto& own : model.item_tower) {
    const auto& feature = feature_named(features, own.name);
    if (feature.kind != prepare::ItemKind::Continuous) continue;
    double count = 0, sum = 0, squares = 0;
    each_trained(feature, trained, [&](int64_t item) {
      for (const double number : feature.numbers_of(item)) {
        ++count;
        sum += number;
      }
    });
    own.mean = count > 0 ? sum / count : 0;
    each_trained(feature, trained, [&](int64_t item) {
      for (const double number : feature.numbers_of(item))
        squares += std::pow(number - own.mean, 2);
    });
    const double deviation = count > 0 ? std::sqrt(squares / count) : 0;
    own.deviation = deviation > 0 ? deviation : 1;
  }
}

}  // namespace convoy::tasks
