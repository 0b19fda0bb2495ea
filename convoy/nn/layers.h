#pragma once

#include "convoy/nn/block.h"

// Shapes: B rows, T positions, D model width, V vocabulary.
namespace convoy::nn {

/// x [..., in] times the parameter, plus an optional bias [out].
/// `weight` is [in, out] as in GPT-2's Conv1D when `in_first`, else [out, in] as in
/// torch::nn::Linear.
at::Tensor linear(const at::Tensor& x, const ParamPtr& weight, const ParamPtr& bias, bool in_first);

inline at::Tensor linear(const at::Tensor& x, const DenseParams& dense) {
  return linear(x, dense.weight, dense.bias, false);
}

/// Rows of `table` [V, D] for ids [...] int64, as fp32. With `padding`, row 0 gets no gradient.
/// Ids must be in range: loaders check them against the schema.
at::Tensor embedding(const at::Tensor& ids, const ParamPtr& table, bool padding);

/// x [B, T, D] plus the first T rows of `table` [positions, D].
at::Tensor add_positions(const at::Tensor& x, const ParamPtr& table);

/// Layer normalisation over the last dimension; fp32 inside whatever the compute dtype.
at::Tensor layer_norm(const at::Tensor& x, const ParamPtr& weight, const ParamPtr& bias,
                      double epsilon);

inline at::Tensor layer_norm(const at::Tensor& x, const NormParams& norm, double epsilon) {
  return layer_norm(x, norm.weight, norm.bias, epsilon);
}

/// x [B, T, D] with the rows where `mask` [B, T] bool is true replaced by `replacement` [D].
at::Tensor replace_rows(const at::Tensor& x, const at::Tensor& mask, const ParamPtr& replacement);

}  // namespace convoy::nn
