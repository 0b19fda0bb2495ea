#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::nn {

/// Writes the gradient of a weight [columns, in], or [in, columns] where `in_first`, or adds to it.
/// `input` [N, in] is what the product read, `g` [N, columns] the gradient of its result.
/// `shared`: shared_columns() of the weight, each computed by itself from contiguous memory.
void write_weight_grad(at::Tensor& grad, const at::Tensor& input, const at::Tensor& g,
                       bool in_first, bool adds, const std::vector<Columns>& shared);

/// Sums of the rows of `g` [N, columns], fp32; by themselves where columns are shared.
at::Tensor column_sums(const at::Tensor& g, const std::vector<Columns>& shared);

}  // namespace convoy::nn
