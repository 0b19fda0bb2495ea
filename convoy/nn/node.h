#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>

#include <functional>
#include <vector>

namespace convoy::nn {

/// Returns the result of `work`, computed without autograd.
template <class Work>
auto without_grad(const Work& work) {
  at::NoGradGuard no_grad;
  return work();
}

/// Makes `output` (computed without autograd) the result of a differentiable operation of `inputs`.
///
/// `backward` receives the gradient of `output` and returns one gradient per input (undefined ones
/// are fine). It runs even when no input needs a gradient, since parameters take theirs in it.
/// It must not hold `output` itself, only `output.detach()`.
at::Tensor with_backward(at::Tensor output, const std::vector<at::Tensor>& inputs,
                         std::function<std::vector<at::Tensor>(const at::Tensor& grad)> backward);

/// Makes several outputs the results of one differentiable operation, like with_backward().
/// Gradients of outputs that nothing read are undefined.
std::vector<at::Tensor> with_backward_of_all(
    std::vector<at::Tensor> outputs, const std::vector<at::Tensor>& inputs,
    std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& grads)> backward);

}  // namespace convoy::nn
