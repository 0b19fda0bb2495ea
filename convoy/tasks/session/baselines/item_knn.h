#pragma once

#include <memory>

#include "convoy/tasks/session/baselines/interactions.h"
#include "convoy/tasks/session/baselines/item_weights.h"

namespace convoy::tasks {

/// Fits item-based nearest neighbours: the weight from item i to item j is the cosine of their
/// columns of the interactions where i is among the `neighbours` items most similar to j (of equal
/// ones the smaller ids), else 0. Memory is 8 bytes a weight.
std::unique_ptr<ItemWeights> fit_item_knn(const Interactions& interactions, int64_t neighbours);

}  // namespace convoy::tasks
