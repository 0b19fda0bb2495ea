#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "convoy/nn/layers/activation_device.h"

namespace convoy::nn {

/// x s(x) times by gated.cu, for x and `times` [..., F] of a GPU, fp32 or bf16; or with `grad` of
/// the result the gradients [..., 2, F] of x and of `times`. Each operand is read once. Nothing
/// where the kernel cannot take these tensors or cannot run.
std::optional<at::Tensor> gated_by_kernel(const Curve& curve, const at::Tensor& x,
                                          const at::Tensor& times, const at::Tensor& grad);

}  // namespace convoy::nn
