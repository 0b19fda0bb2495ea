#pragma once

#include <ATen/core/Tensor.h>

namespace convoy::nn {

/// Returns the gradient of a loss, `scale`, with which backward begins.
at::Tensor root_gradient(const at::Tensor& loss, double scale);

/// Whether a gradient is 1, as far as the host knows: a GPU is not asked.
bool is_known_one(const at::Tensor& grad);

}  // namespace convoy::nn
