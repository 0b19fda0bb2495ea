#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace convoy::nn {

/// Activations of the feed-forward part between its two products, by Hugging Face's names.
const std::vector<std::string>& activations();

/// Computes the activation `kind` of `x`, times `times` where one is given, elementwise (Shazeer,
/// "GLU variants improve transformer", 2020). Keeps its inputs only; backward makes the rest again.
at::Tensor activate(const std::string& kind, const at::Tensor& x, const at::Tensor& times = {});

/// Gradients of activate(), of x and of `times`, for the gradient `grad` of its result; all of one
/// shape. Without autograd.
std::vector<at::Tensor> activation_grads(const std::string& kind, const at::Tensor& x,
                                         const at::Tensor& times, const at::Tensor& grad);

}  // namespace convoy::nn
