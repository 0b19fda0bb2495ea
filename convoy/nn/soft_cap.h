#pragma once

#include <ATen/core/Tensor.h>

namespace convoy::nn {

/// cap x tanh(scores / cap), in place.
at::Tensor& cap_scores(at::Tensor& scores, double cap);

/// Slope of cap_scores() by what it gave, fp32: 1 - (capped / cap)^2.
at::Tensor slope_of_cap(const at::Tensor& capped, double cap);

/// Returns cap x tanh(scores / cap) in new memory, without autograd.
at::Tensor capped(const at::Tensor& scores, double cap);

}  // namespace convoy::nn
