#pragma once

#include <ATen/core/Tensor.h>

namespace convoy::nn {

/// Options of losses that score the target and some other items. Shapes: N positions with a target.
struct SampledLossOptions {
  double temperature = 1;   ///< divides the scores
  at::Tensor weights = {};  ///< [N] fp32: factor of each row's loss; undefined: 1
};

}  // namespace convoy::nn
