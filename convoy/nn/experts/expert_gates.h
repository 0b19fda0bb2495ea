#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

// Functions between an expert's two products. Shapes: S rows, F width of an expert.
namespace convoy::nn {

/// Gate of experts whose `inner` products are those with gate and up: [S, F] each, or, of
/// `kind` "" (gpt-oss), one [S, 2F] whose columns take turns. Without autograd.
struct ExpertGate {
  std::string kind;  ///< activation of the gate (nn::activations()); "": clamped, with a slope
  double slope = 1, limit = 0;

  /// Rows [S, F] that down is multiplied with.
  at::Tensor forward(const std::vector<at::Tensor>& inner) const;
  /// Gradients of `inner` for that of the rows.
  std::vector<at::Tensor> backward(const std::vector<at::Tensor>& inner,
                                   const at::Tensor& grad) const;
};

}  // namespace convoy::nn
