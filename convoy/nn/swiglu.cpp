#include "convoy/nn/swiglu.h"

#include <ATen/ATen.h>

#include "convoy/nn/node.h"

namespace convoy::nn {

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  auto g = gate.detach(), u = up.detach();
  const auto out = without_grad([&] { return at::silu(g).mul_(u); });
  return with_backward(out, {gate, up}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    return {at::silu_backward(grad * u, g), at::silu(g).mul_(grad)};
  });
}

}  // namespace convoy::nn
