#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

namespace convoy::optim {

/// Sums [n] in double precision of the squares of contiguous fp32 tensors of one GPU, by
/// squares.cu: they add up to that of all, and depend on the tensors' sizes and values only.
/// Nothing where the kernel cannot run.
std::optional<at::Tensor> squares_by_kernel(const std::vector<at::Tensor>& values);

}  // namespace convoy::optim
