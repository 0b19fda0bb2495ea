#pragma once

#include "convoy/models/session/session.h"

// Shapes: B rows, T positions, N targets.
namespace convoy::models {

/// Key in a bundle of training of the factors [B, T] fp32 of each item's loss where the item is a
/// target. Without it all have 1.
inline constexpr const char* kEventWeights = "event_weights";

/// Returns weights [B, T] fp32 of the events of a batch, from the column that `weights` names.
/// Weights of padding mean nothing.
at::Tensor event_weights(const EventWeights& weights, const nn::Bundle& batch);

/// Returns how often the loss of each whole session counts [B]. `rows` [N] int64 holds the row of
/// each target. A session counts as the sum of its targets' `weights` [N], or, where these are
/// undefined, as their number.
at::Tensor targets_of_rows(int64_t num_rows, const at::Tensor& rows, const at::Tensor& weights);

}  // namespace convoy::models
