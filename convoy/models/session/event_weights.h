#pragma once

#include "convoy/models/session/session.h"

// Shapes: B rows, T positions, N targets.
namespace convoy::models {

/// Key in a bundle of training [B, T] fp32: factor of the loss of each item where it is a target;
/// without it all have 1.
inline constexpr const char* kEventWeights = "event_weights";

/// Weights [B, T] fp32 of the events of a batch, by the column that `weights` names. Those of
/// padding mean nothing.
at::Tensor event_weights(const EventWeights& weights, const nn::Bundle& batch);

/// Number of times that the loss of a whole session counts [B], for targets at the flat positions
/// `rows` [N] of rows: the sum of its targets' weights [N], where these are defined, else their
/// number.
at::Tensor targets_of_rows(int64_t num_rows, const at::Tensor& rows, const at::Tensor& weights);

}  // namespace convoy::models
