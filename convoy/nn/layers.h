#pragma once

#include "convoy/nn/block.h"

// Shapes: B rows, T positions, D model width, H heads, V vocabulary.
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

struct AttentionOptions {
  bool causal = true;      ///< a position sees itself and those before
  at::Tensor key_mask;     ///< [B, T] bool, not with causal: positions that may be looked at
  double dropout = 0;      ///< rate on the probabilities
  int64_t max_length = 0;  ///< >= T: the model's longest sequence, by which draws are addressed
  int64_t site = 0;        ///< numbers the random draws
};

/// Self-attention of q, k, v [B, H, T, D/H]: torch's fused kernel, or where dropout is on the
/// composed path.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options, const Context& context);

}  // namespace convoy::nn
