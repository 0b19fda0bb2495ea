#pragma once

#include "convoy/nn/block.h"

namespace convoy::nn {

/// x / sqrt(mean(x^2) + epsilon) x weight over the last dimension (Zhang and Sennrich, 2019); fp32
/// inside and out, whatever the compute dtype.
at::Tensor rms_norm(const at::Tensor& x, const ParamPtr& weight, double epsilon);

}  // namespace convoy::nn
