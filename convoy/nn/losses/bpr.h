#pragma once

#include "convoy/nn/block.h"
#include "convoy/nn/losses/sampled_loss_options.h"

// Shapes: N positions with a target, D model width, V vocabulary with padding, n negatives.
namespace convoy::nn {

/// Loss of Bayesian personalised ranking (Rendle et al., 2009) of h [N, D] against each row's
/// target and its own negatives [N, n] int64: -log sigmoid(score of the target - score of the
/// negative), the sum over the rows of the mean over the negatives. fp32 scalar.
///
/// Backward adds to N (n + 1) rows of `table` [V, D].
at::Tensor bpr(const at::Tensor& h, const ParamPtr& table, const at::Tensor& targets,
               const at::Tensor& negatives, const SampledLossOptions& options,
               const Context& context);

}  // namespace convoy::nn
