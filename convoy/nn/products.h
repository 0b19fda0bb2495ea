#pragma once

#include <torch/types.h>

// Products for which at::mm is not the fastest way, without autograd. Shapes: M rows, K terms of a
// sum, N results of a row.
namespace convoy::nn {

/// x [M, K] times `matrix` [N, K] transposed, plus `bias` [N] where there is one: in generation M
/// texts take a token each, and of some rows against a large matrix MKL computes the transpose in
/// half the time.
at::Tensor product_with_rows(const at::Tensor& x, const at::Tensor& matrix,
                             const at::Tensor& bias = {});

/// The dtype in which transposed_product() of such rows comes for nothing: fp32 of bf16 rows on
/// processors with AMX, where MKL writes its sums as they are; that of the rows elsewhere.
at::ScalarType product_dtype(const at::Tensor& rows);

/// Writes a [K, M] transposed times b [K, N] to out [M, N], or adds it. `out` is contiguous and of
/// product_dtype().
void transposed_product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                        bool add = false);

}  // namespace convoy::nn
