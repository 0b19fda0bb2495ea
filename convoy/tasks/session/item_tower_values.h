#pragma once

#include <memory>
#include <vector>

#include "convoy/models/session/session.h"
#include "convoy/prepare/item_features.h"
#include "convoy/tasks/session/known_items.h"

namespace convoy::tasks {

/// Values of an item tower, and the items that they tell.
struct ItemsOfTower {
  std::shared_ptr<const models::ItemTowerValues> values;
  KnownItems told{0};  ///< items with a value that an item of training has
};

/// Returns the values of the model's features for its items, and for those that `features` has
/// beyond them. Categories that no item of training (`trained`) has count as none. So does a number
/// or vector of a feature that no such item has.
ItemsOfTower item_tower_values(const models::SessionConfig& model,
                               const prepare::ItemFeatures& features, const KnownItems& trained);

/// Sets mean and deviation of the model's numbers by the items that training saw. A deviation of 0
/// counts as 1.
void measure_item_numbers(const prepare::ItemFeatures& features, const KnownItems& trained,
                          models::SessionConfig& model);

}  // namespace convoy::tasks
