#pragma once

#include <memory>

#include "convoy/tasks/session/baselines/interactions.h"
#include "convoy/tasks/session/baselines/item_weights.h"

namespace convoy::tasks {

/// Fits EASE (https://arxiv.org/abs/1905.03375): weights, 0 from an item to itself, that minimise
/// the squared error of reproducing the interactions X, plus `regularization` times the squared
/// weights. In closed form -P[i,j]/P[j,j], where P is the inverse of X'X with `regularization`
/// added to its diagonal. Computed in float64; takes ease_bytes() for a moment and 4 bytes a pair
/// of items after it.
std::unique_ptr<ItemWeights> fit_ease(const Interactions& interactions, double regularization);

/// Peak memory of fit_ease().
constexpr int64_t ease_bytes(int64_t num_items) {
  constexpr int64_t kMatrices = 2;
  return kMatrices * (num_items + 1) * (num_items + 1) * static_cast<int64_t>(sizeof(double));
}

}  // namespace convoy::tasks
