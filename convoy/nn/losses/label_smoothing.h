#pragma once

#include "convoy/nn/block.h"

// Shapes: N positions with a target, D model width, V vocabulary with padding.
namespace convoy::nn {

struct SmoothingOptions {
  double share = 0;         ///< of each target that all ids have, alike
  double temperature = 1;   ///< divides the scores
  int64_t first_id = 1;     ///< of the ids that have it
  at::Tensor weights = {};  ///< [N] fp32: factor of each row's loss; undefined: 1
};

/// Term that label smoothing (Szegedy et al., 2016) adds to the cross-entropy of h [N, D]: `share`
/// times the target's score less the mean of all scores, summed over the rows. Term and
/// cross-entropy add up to torch's cross-entropy with `label_smoothing`. fp32 scalar; the mean
/// takes a pass over `table` [V, D].
///
/// To be called before cross_entropy(), so that its backward comes after: that one scales what it
/// wrote to the table's gradient in forward, this one adds to it.
at::Tensor label_smoothing(const at::Tensor& h, const ParamPtr& table, const at::Tensor& targets,
                           const SmoothingOptions& options, const Context& context);

}  // namespace convoy::nn
