#pragma once

#include <memory>
#include <vector>

#include "convoy/models/session/session.h"
#include "convoy/prepare/item_features.h"
#include "convoy/tasks/session/known_items.h"

namespace convoy::tasks {

/// Values of an item tower, and which items they tell.
struct ItemsOfTower {
  std::shared_ptr<const models::ItemTowerValues> values;
  KnownItems told{0};  ///< items with a value that some item has which training saw
};

/// Values of the model's features for its items, and for those that `features` has beyond them.
/// Categories that no item has which training saw (`trained`) count as none, and so does a number
/// or vector of a feature that none of them has.
ItemsOfTower item_tower_values(const models::SessionConfig& model,
                               const prepare::ItemFeatures& features, const KnownItems& trained);

/// Sets mean and deviation of the model's numbers by the items that training saw; a deviation of 0
/// counts as 1.
void measure_item_numbers(const prepare::ItemFeatures& features, const KnownItems& trained,
                          models::SessionConfig& model);

}  // namespace convoy::tasks
