#pragma once

#include <ATen/core/Tensor.h>

// Shapes: M rows, K terms of a sum, N results of a row.
namespace convoy::nn {

/// x [M, K] times `matrix` [N, K] transposed, plus `bias` [N] where there is one, without autograd:
/// in generation M texts take a token each, and what counts is to read a large matrix from memory
/// once, as fast as it comes.
at::Tensor product_with_rows(const at::Tensor& x, const at::Tensor& matrix,
                             const at::Tensor& bias = {});

}  // namespace convoy::nn
