#pragma once

#include "convoy/nn/layers/layers.h"

namespace convoy::nn {

/// A normalisation of rows.
struct RowNorm {
  NormParams params;  ///< without a bias: rms_norm(), else layer_norm()
  double epsilon;
  ReadBy reader = ReadBy::Products;
  RmsFactor factor = RmsFactor::Weight;
};

/// States of the residual stream, and their normalised rows.
struct NormedStates {
  at::Tensor states, rows;
};

/// Returns x [..., D] plus `added` [..., D] (undefined: x alone), and its normalised rows. On a GPU
/// that is one kernel, and one of backward, which adds the gradients of the states to those of the
/// rows: whoever reads the sum on reads `states`, not x. Statistics are of fp32 there.
NormedStates add_norm(const at::Tensor& x, const at::Tensor& added, const RowNorm& norm);

/// add_norm() of x plus dropout() of `added` (layers/dropout.h).
NormedStates add_dropped_norm(const at::Tensor& x, const at::Tensor& added, const RowNorm& norm,
                              double rate, const Context& context, int64_t site,
                              const TensorRanks& ranks);

/// Returns x itself, and its normalised rows.
inline NormedStates with_norm(const at::Tensor& x, const RowNorm& norm) {
  return add_norm(x, {}, norm);
}

}  // namespace convoy::nn
