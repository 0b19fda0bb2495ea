#pragma once

#include <functional>

#include "convoy/nn/block.h"

// Shapes: N positions with a target, R of them at once, D model width, V vocabulary with padding, K
// items that each position scores.
namespace convoy::nn {

/// Function that turns scores [R, K] fp32 in place into the slopes of each row's loss by them. It
/// returns the losses [R] fp32.
using LossOfScores = std::function<at::Tensor(at::Tensor& scores)>;

/// Returns the sum, fp32 scalar, of the losses of h [N, D], each of whose rows scores items of its
/// own, `ids` [N, K] int64. `weights` [N] fp32 are factors of the rows' losses; undefined: 1.
///
/// Rows of `table` [V, D] are read a cache's worth at a time. Backward adds to N K of them.
at::Tensor loss_of_own_items(const at::Tensor& h, const ParamPtr& table, const at::Tensor& ids,
                             const at::Tensor& weights, const LossOfScores& loss_of,
                             const Context& context);

}  // namespace convoy::nn
