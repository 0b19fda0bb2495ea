#pragma once

#include <ATen/core/Tensor.h>

// Kernels of softmax.cu. Shapes: R rows, C scores of a row, which may lie more than C apart.
namespace convoy::nn {

/// How scores become the logits of a softmax.
struct Logits {
  double temperature = 1;
  double cap = 0;  ///< logits are cap tanh(score / cap) / temperature; 0: no cap
};

/// Whether the kernels run on `device` for rows of `count` scores of a dtype, and are right there.
bool has_softmax_kernels(at::Device device, at::ScalarType scores, int64_t count);

/// Cross-entropies [R] fp32 of scores [R, C] at `columns` [R] int64, contiguous. Where
/// `wants_slope` the scores become softmax minus one-hot, times the cap's derivative, and what
/// stands between the rows zeros.
at::Tensor cross_entropy_by_kernel(at::Tensor& scores, const at::Tensor& columns,
                                   const Logits& logits, bool wants_slope);

/// log_sums_of() and to_slopes() (softmax_pass.h) for scores [R, C], C > 0.
void log_sums_by_kernel(const at::Tensor& scores, at::Tensor& log_sums, double temperature);
void slopes_by_kernel(at::Tensor& scores, const at::Tensor& log_sums, const at::Tensor& columns,
                      double temperature);

}  // namespace convoy::nn
