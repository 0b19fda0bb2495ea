#include "convoy/nn/rms_norm.h"

#include <ATen/ATen.h>

#include "convoy/nn/node.h"

namespace convoy::nn {

at::Tensor rms_norm(const at::Tensor& x, const ParamPtr& weight, double epsilon) {
  const auto input = x.detach().to(at::kFloat);
  const auto scale = input.square().mean(-1, true).add_(epsilon).rsqrt_();
  const auto out =
      without_grad([&] { return (input * scale).mul_(weight->value().to(at::kFloat)); });
  return with_backward(
      out, {x}, [=, dtype = x.scalar_type()](const at::Tensor& g) -> std::vector<at::Tensor> {
        auto grad = g.to(at::kFloat);
        auto normed = input * scale;
        const int64_t width = input.size(-1);
        weight->add_grad((grad * normed).reshape({-1, width}).sum(0));
        auto back = grad * weight->value().to(at::kFloat);
        auto along = (back * normed).mean(-1, true);
        return {back.sub_(normed.mul_(along)).mul_(scale).to(dtype)};
      });
}

}  // namespace convoy::nn
