#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace convoy::nn {

/// x [B, H, T, E] fp32 or bf16 on a GPU turned as rotate() says, in one launch; `sign` -1 turns
/// back. Nothing where there is no kernel for it. cos and sin are contiguous, fp32, [T, E / 2] or
/// [B or 1, 1, T, E / 2].
std::optional<at::Tensor> turn_on_device(const at::Tensor& x, const at::Tensor& cos,
                                         const at::Tensor& sin, float sign);

/// Computes one element as the kernels do, of the low or the high half; and four bf16 neighbours
/// that are packed().
float turned_element(float low, float high, float cos, float sin, bool upper, float sign);
int64_t turned_packed(int64_t low, int64_t high, const float* cos, const float* sin, bool upper,
                      float sign);

}  // namespace convoy::nn
