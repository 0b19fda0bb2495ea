#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace convoy::gpu {

/// Largest difference of results from what is expected of them, each relative to the largest
/// number of its tensor: a scalar on their device, infinite where one is no number. A number of 16
/// bits may be rounded to either side: its difference counts 1 / 4096.
at::Tensor difference(const std::vector<at::Tensor>& found,
                      const std::vector<at::Tensor>& expected);

}  // namespace convoy::gpu
