#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace convoy::nn {

/// Operands of add_norm.cu, of one GPU.
struct AddNorm {
  at::Tensor x;       ///< [..., D] fp32
  at::Tensor added;   ///< [..., D] fp32 or bf16, or undefined
  at::Tensor weight;  ///< [D] fp32 or bf16
  at::Tensor bias;    ///< [D] of the weight's dtype: layer normalisation; undefined: RMS
  double epsilon = 0;
  bool one_more = false;  ///< the factor of a row is its weight plus one
  at::ScalarType rows = at::kFloat;
};

/// Results: `states` [..., D] fp32 (x itself without `added`), `rows` [..., D], and `stats` [R, 2],
/// which backward reads with the states.
struct AddNormed {
  at::Tensor states, rows, stats;
};

/// Operands of the way back.
struct AddNormBack {
  at::Tensor row_grads;    ///< [..., D] in the dtype of the rows
  at::Tensor state_grads;  ///< [..., D] fp32, or undefined: zeros
  at::Tensor states, stats, weight;
  bool layer = false;  ///< layer normalisation
  bool one_more = false;
  std::optional<at::ScalarType> added = {};  ///< dtype of `added`, where there was one
  bool of_params = true;                     ///< whether AddNormGrads::sums is wanted
};

/// Gradients of x, fp32; of `added`, in its dtype; and sums [blocks, 1 or 2, D] fp32, which add up
/// to those of the weight and of the bias.
struct AddNormGrads {
  at::Tensor x, added, sums;
};

/// Normalises by the kernel; nothing where it cannot take these tensors or cannot run.
std::optional<AddNormed> add_norm_by_kernel(const AddNorm& given);

/// Gradients of add_norm_by_kernel().
AddNormGrads add_norm_back_by_kernel(const AddNormBack& given);

}  // namespace convoy::nn
