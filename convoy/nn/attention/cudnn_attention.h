#pragma once

#include <ATen/core/Tensor.h>

namespace convoy::nn {

/// Attention without mask, bias and dropout by cuDNN's kernel, on Hopper and newer GPUs about twice
/// as fast as torch's flash kernel; q [B, H, T, E], k and v [B, K, S, E] in 16 bits. Undefined
/// where another kernel is to be taken: cuDNN makes a plan for each shape, which takes tenths of a
/// second, so only for the first few shapes, and only where a backward follows.
at::Tensor cudnn_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           bool causal, double scale);

}  // namespace convoy::nn
