#pragma once

#include "convoy/nn/block.h"

// Shapes: B rows, T positions, D model width, H heads, V vocabulary, N positions with a target.
namespace convoy::nn {

/// x [..., in] times the parameter, plus an optional bias [out].
/// `weight` is [in, out] as in GPT-2's Conv1D when `in_first`, else [out, in] as in
/// torch::nn::Linear.
at::Tensor linear(const at::Tensor& x, const ParamPtr& weight, const ParamPtr& bias, bool in_first);

/// Rows of `table` [V, D] for ids [...] int64, as fp32. With `padding`, row 0 gets no gradient.
/// Ids must be in range: loaders check them against the schema.
at::Tensor embedding(const at::Tensor& ids, const ParamPtr& table, bool padding);

/// x [B, T, D] plus the first T rows of `table` [positions, D].
at::Tensor add_positions(const at::Tensor& x, const ParamPtr& table);

/// Layer normalisation over the last dimension; fp32 inside whatever the compute dtype.
at::Tensor layer_norm(const at::Tensor& x, const ParamPtr& weight, const ParamPtr& bias,
                      double epsilon);

/// Causal self-attention of q, k, v [B, H, T, D/H]; dropout on the probabilities when
/// `dropout` > 0 (composed path), else the fused kernel. `site` numbers the random draws;
/// `max_length` >= T is the model's longest sequence, by which draws are addressed.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            double dropout, int64_t max_length, const Context& context,
                            int64_t site);

/// Scores [N, V-1] fp32 of ids 1..V-1 (column c is id c + 1), without autograd.
at::Tensor tied_scores(const at::Tensor& h, const ParamPtr& table, double temperature);

}  // namespace convoy::nn
