#pragma once

#include <ATen/core/Tensor.h>

namespace convoy::optim {

/// Returns the sum of squares of a flat fp32 tensor in double precision, a scalar on its device:
/// however a gradient is cut, the sums of its parts add up to the same but for the last bits of a
/// double.
at::Tensor sum_of_squares(const at::Tensor& values);

}  // namespace convoy::optim
