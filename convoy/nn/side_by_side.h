#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "convoy/nn/param.h"

namespace convoy::nn {

/// Tensors that lie one behind the other along `dim` of one memory, as one view of it, without
/// autograd; undefined where they do not.
at::Tensor side_by_side(const std::vector<at::Tensor>& parts, int64_t dim);

/// Returns the tensors as one: a view as above, or a copy where they lie elsewhere.
at::Tensor joined(const std::vector<at::Tensor>& parts, int64_t dim);

/// Values of parameters.
std::vector<at::Tensor> values_of(const std::vector<ParamPtr>& params);

/// Lengths of tensors along `dim`.
std::vector<int64_t> lengths_of(const std::vector<at::Tensor>& parts, int64_t dim);

}  // namespace convoy::nn
