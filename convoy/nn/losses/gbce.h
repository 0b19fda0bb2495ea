#pragma once

#include "convoy/nn/block.h"

// Shapes: N positions with a target, D model width, V vocabulary with padding, n negatives.
namespace convoy::nn {

struct GbceOptions {
  double t = 0.75;           ///< 0: plain binary cross-entropy; 1: fully calibrated
  double sampling_rate = 1;  ///< n / number of ids that a target competes with
  double temperature = 1;    ///< divides the scores
  at::Tensor weights = {};   ///< [N] fp32: factor of each row's loss; undefined: 1
};

/// Generalised binary cross-entropy (Petrov and Macdonald, "gSASRec", 2023) of h [N, D] against
/// each row's target and its own negatives [N, n] int64: the sum over the rows of the mean over
/// the n + 1 scores. The probability of the target is raised to the power of
/// beta = 1 - t (1 - sampling_rate): negatives are fewer than the ids that they stand for, which
/// would make the model too sure. fp32 scalar.
///
/// Backward adds to N (n + 1) rows of `table` [V, D].
at::Tensor gbce(const at::Tensor& h, const ParamPtr& table, const at::Tensor& targets,
                const at::Tensor& negatives, const GbceOptions& options, const Context& context);

}  // namespace convoy::nn
