#include "convoy/nn/experts/expert_gates.h"

#include <ATen/ATen.h>

#include "convoy/nn/layers/activation.h"

namespace convoy::nn {

namespace {

/// Every second column from `first` on.
at::Tensor columns(const at::Tensor& x, int64_t first) {
  return x.slice(1, first, x.size(1), 2);
}

/// Gate and up within their limits, in fp32, and the gate's sigmoid.
struct Clamped {
  Clamped(const at::Tensor& inner, const ExpertGate& options)
      : gate_inside(columns(inner, 0).le(options.limit)),
        up_inside(columns(inner, 1).abs().le(options.limit)),
        gate(columns(inner, 0).to(at::kFloat).clamp_max(options.limit)),
        up(columns(inner, 1).to(at::kFloat).clamp(-options.limit, options.limit)),
        share(at::sigmoid(gate * options.slope)) {}

  at::Tensor gate_inside, up_inside, gate, up, share;
};

}  // namespace

at::Tensor ExpertGate::forward(const std::vector<at::Tensor>& inner) const {
  if (!kind.empty()) return activate(kind, inner[0], inner[1]);
  const Clamped at(inner[0], *this);
  return (at.gate * at.share * (at.up + 1)).to(inner[0].scalar_type());
}

std::vector<at::Tensor> ExpertGate::backward(const std::vector<at::Tensor>& inner,
                                             const at::Tensor& grad) const {
  if (!kind.empty()) return activation_grads(kind, inner[0], inner[1], grad);
  const Clamped at(inner[0], *this);
  const auto glu = at.gate * at.share;
  const auto of_gate = grad * (at.up + 1) * (at.share + slope * glu * (1 - at.share));
  const auto of_up = grad * glu;
  return {at::stack({of_gate * at.gate_inside, of_up * at.up_inside}, 2)
              .flatten(1)
              .to(inner[0].scalar_type())};
}

}  // namespace convoy::nn
