#include "convoy/nn/node.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include "convoy/base/error.h"

namespace convoy::nn {

namespace {

using torch::autograd::variable_list;
using BackwardFunction = std::function<std::vector<at::Tensor>(const at::Tensor&)>;

class LayerBackward : public torch::autograd::Node {
 public:
  LayerBackward(torch::autograd::edge_list edges, BackwardFunction backward)
      : Node(std::move(edges)), backward_(std::move(backward)) {}

  variable_list apply(variable_list&& grads) override {
    internal_check(static_cast<bool>(backward_), "nn", "backward ran twice through a layer");
    at::NoGradGuard no_grad;
    if (!grads[0].defined()) return variable_list(num_outputs());
    return backward_(grads[0]);
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

at::Tensor with_backward(at::Tensor output, const std::vector<at::Tensor>& inputs,
                         BackwardFunction backward) {
  if (!at::GradMode::is_enabled()) return output;
  torch::autograd::edge_list edges;
  for (const auto& input : inputs) {
    bool wanted = input.defined() && input.requires_grad();
    edges.push_back(wanted ? torch::autograd::impl::gradient_edge(input) : torch::autograd::Edge());
  }
  using Pointer = decltype(torch::autograd::Edge::function);
  torch::autograd::create_gradient_edge(
      output, make_node<Pointer, LayerBackward>(std::move(edges), std::move(backward)));
  return output;
}

}  // namespace convoy::nn
