#pragma once

#include <ATen/core/Tensor.h>

// A softmax whose columns several ranks have, in two passes over what is here. Shapes: R rows, C
// columns.
namespace convoy::nn {

/// Fills `log_sums` [R] fp32 with log(sum(exp(score / temperature))) of rows of scores [R, C],
/// contiguous, fp32 or bf16; minus infinity where C is 0.
void log_sums_of(const at::Tensor& scores, at::Tensor& log_sums, double temperature);

/// Replaces scores by softmax minus one-hot, where `log_sums` are over all columns. `columns` [R]
/// int64, contiguous: the targets', -1 where that is not here.
void to_slopes(at::Tensor& scores, const at::Tensor& log_sums, const at::Tensor& columns,
               double temperature);

}  // namespace convoy::nn
