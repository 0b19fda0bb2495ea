#include "convoy/planner/cost/cost_key.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>

#include <typeinfo>

namespace convoy::planner {

std::string cost_key(const nn::Block& block, const nn::Bundle& in,
                     const std::set<const nn::Param*>& shared) {
  auto out = fmt::format("{} {}", typeid(block).name(), block.cost_key());
  for (const auto& param : block.params()) {
    out += fmt::format(" {}{}{}", fmt::join(param->shape(), "x"), param->spec().trainable,
                       shared.contains(param.get()) ? "s" : "");
  }
  for (const auto& [name, tensor] : in) {
    out += fmt::format(" {}:{}:{}:{}", name, fmt::join(tensor.sizes(), "x"),
                       static_cast<int>(tensor.scalar_type()), tensor.requires_grad());
  }
  return out;
}

bool holds(const nn::Bundle& bundle, const std::string& name, const at::Tensor& tensor) {
  const auto found = bundle.find(name);
  return found != bundle.end() && found->second.is_same(tensor);
}

nn::Bundle with_copies(const nn::Bundle& bundle, const nn::Bundle* but) {
  nn::Bundle out;
  for (const auto& [name, tensor] : bundle) {
    const bool grads = tensor.requires_grad();
    const bool copied = but == nullptr ? grads : !holds(*but, name, tensor);
    out[name] = copied ? tensor.detach().clone().requires_grad_(grads) : tensor;
  }
  return out;
}

Roots::Roots(const nn::Bundle& out) {
  for (const auto& [name, tensor] : out) {
    if (!tensor.requires_grad()) continue;
    tensors.push_back(tensor);
    grads.push_back(at::ones_like(tensor));
  }
}

void Roots::backward() const {
  if (!tensors.empty()) torch::autograd::backward(tensors, grads);
}

}  // namespace convoy::planner
