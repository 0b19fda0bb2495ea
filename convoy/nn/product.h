#pragma once

#include <ATen/core/Tensor.h>

namespace convoy::nn {

/// Returns the dtype in which the product of factors like `x` is summed and written without another
/// pass: fp32 for bf16 on a GPU, else their own dtype. fp16 stays fp16, so it overflows where the
/// host's does, and the same steps are skipped.
at::ScalarType product_dtype(const at::Tensor& x);

/// Writes a [M, K] times b [K, N] into `out` [M, N], of their dtype or of product_dtype(); or adds
/// the finished product.
void product_into(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool adds = false);

/// Writes the sum of rows [N, C] into `out` [C] fp32, or adds it.
void sum_rows_into(at::Tensor& out, const at::Tensor& rows, bool adds);

}  // namespace convoy::nn
