#include "convoy/nn/node.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "convoy/base/error.h"

namespace convoy::nn {

namespace {

using torch::autograd::variable_list;
using BackwardFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

class LayerBackward : public torch::autograd::Node {
 public:
  LayerBackward(torch::autograd::edge_list edges, BackwardFunction backward)
      : Node(std::move(edges)), backward_(std::move(backward)) {}

  variable_list apply(variable_list&& grads) override {
    internal_check(static_cast<bool>(backward_), "nn", "backward ran twice through a layer");
    at::NoGradGuard no_grad;
    const auto reached = [](const at::Tensor& grad) { return grad.defined(); };
    if (std::none_of(grads.begin(), grads.end(), reached)) return variable_list(num_outputs());
    return backward_(grads);
  }

  void release_variables() override { backward_ = nullptr; }
  std::string name() const override { return "convoy::LayerBackward"; }

 private:
  BackwardFunction backward_;
};

// torch 2.15 counts references of nodes inside them, 2.11 outside.
template <class Pointer, class Layer>
Pointer make_node(torch::autograd::edge_list edges, BackwardFunction backward) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<Layer>(std::move(edges), std::move(backward));
  } else {
    return c10::make_intrusive<Layer>(std::move(edges), std::move(backward));
  }
}

}  // namespace

std::vector<at::Tensor> with_backward_of_all(std::vector<at::Tensor> outputs,
                                             const std::vector<at::Tensor>& inputs,
                                             BackwardFunction backward) {
  if (!at::GradMode::is_enabled()) return outputs;
  torch::autograd::edge_list edges;
  for (const auto& input : inputs) {
    bool wanted = input.defined() && input.requires_grad();
    edges.push_back(wanted ? torch::autograd::impl::gradient_edge(input) : torch::autograd::Edge());
  }
  using Pointer = decltype(torch::autograd::Edge::function);
  const auto node = make_node<Pointer, LayerBackward>(std::move(edges), std::move(backward));
  for (auto& output : outputs) torch::autograd::create_gradient_edge(output, node);
  return outputs;
}

at::Tensor with_backward(at::Tensor output, const std::vector<at::Tensor>& inputs,
                         std::function<std::vector<at::Tensor>(const at::Tensor&)> backward) {
  if (!at::GradMode::is_enabled()) return output;
  return with_backward_of_all({std::move(output)}, inputs,
                              [backward = std::move(backward)](const auto& grads) mutable {
                                return backward(grads[0]);
                              })[0];
}

}  // namespace convoy::nn
