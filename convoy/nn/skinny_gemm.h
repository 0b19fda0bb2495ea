#pragma once

#include <ATen/core/Tensor.h>

// Shapes: M rows, K terms of a sum, N results of a row.
namespace convoy::nn {

/// x [M, K] times `matrix` [K, N], plus `bias` [N] where there is one, without autograd; of a
/// matrix of 16 bits and x of 32, as of 32. In generation M texts take a token each, and what
/// counts is to read a large matrix from memory once, as fast as it comes. Where M is at most 16
/// and the processor has AVX-512, a row's result does not depend on the others'.
at::Tensor product_of_rows(const at::Tensor& x, const at::Tensor& matrix,
                           const at::Tensor& bias = {});

/// Writes x [m, k] times the transpose of `rows` [n, k] to `out` [m, n], on this thread, and
/// returns true: then each result depends on its two rows alone, not on how many there are. Does
/// nothing and returns false unless m is at most 16, k a multiple of 16, and the processor has
/// AVX-512.
bool dots_into(const float* x, const float* rows, float* out, int64_t m, int64_t n, int64_t k);

/// Three times x [M, K] fp32 in 16 bits, [3 M, K]: what rounding leaves, and what that leaves.
/// Their sum, times `scale` [M, 1] where `type` is fp16, is x, so that sums of their products are
/// as exact as of x; but for what is 2^-39 of a row's largest in fp16.
struct NarrowParts {
  at::Tensor parts, scale;
};
NarrowParts narrow_parts(const at::Tensor& x, at::ScalarType type);

}  // namespace convoy::nn
