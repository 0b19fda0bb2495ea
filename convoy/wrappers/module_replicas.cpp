#include "convoy/wrappers/module_replicas.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/autograd.h>

#include "convoy/base/error.h"
#include "convoy/nn/node.h"
#include "convoy/parallel/strategy/workers.h"

namespace convoy::wrappers {

ModuleReplicas::ModuleReplicas(std::shared_ptr<torch::nn::Module> module,
                               std::vector<at::Device> devices, Forward forward)
    : module_(std::move(module)), devices_(std::move(devices)), forward_(std::move(forward)) {
  if (devices_.empty()) {
    fail<UsageError>("wrappers", "DataParallel needs at least one device; got none");
  }
  for (const auto& device : devices_) {
    try {
      replicas_.push_back(module_->clone(device));
    } catch (const c10::Error& error) {
      fail<UsageError>("wrappers",
                       "the module cannot be replicated: {}; expected a class derived from "
                       "torch::nn::Cloneable",
                       error.what_without_backtrace());
    }
  }
  const int threads = std::max(1, at::get_num_threads() / static_cast<int>(devices_.size()));
  workers_ = std::make_unique<parallel::Workers>(devices_, threads);
}

ModuleReplicas::~ModuleReplicas() = default;

void ModuleReplicas::follow_weights() {
  at::NoGradGuard no_grad;
  auto pairwise = [](const std::vector<at::Tensor>& from, const std::vector<at::Tensor>& to,
                     const at::Device& device, bool share) {
    for (size_t i = 0; i < from.size(); ++i) {
      const auto& target = to[i];
      if (share && from[i].device() == device) {
        target.set_data(from[i].data());
      } else {
        target.data().copy_(from[i]);
      }
      target.set_requires_grad(from[i].requires_grad());
    }
  };
  for (size_t r = 0; r < replicas_.size(); ++r) {
    pairwise(module_->parameters(), replicas_[r]->parameters(), devices_[r], true);
    // The first replica keeps the module's own running statistics up to date.
    pairwise(module_->buffers(), replicas_[r]->buffers(), devices_[r], r == 0);
    // Parents come first, and train() reaches down: each module's own flag is set last.
    const auto modules = module_->modules(), copies = replicas_[r]->modules();
    for (size_t m = 0; m < modules.size(); ++m) copies[m]->train(modules[m]->is_training());
  }
}

void ModuleReplicas::collect_gradients(size_t num_used) {
  at::NoGradGuard no_grad;
  auto targets = module_->parameters();
  for (size_t r = 0; r < num_used; ++r) {
    auto sources = replicas_[r]->parameters();
    for (size_t i = 0; i < targets.size(); ++i) {
      auto& grad = sources[i].mutable_grad();
      if (!grad.defined()) continue;
      auto& total = targets[i].mutable_grad();
      auto part = grad.to(targets[i].device());
      if (total.defined()) {
        total.add_(part);
      } else {
        total = part;
      }
      grad.reset();
    }
  }
}

at::Tensor ModuleReplicas::forward(const at::Tensor& input) {
  if (input.dim() == 0 || input.size(0) == 0) {
    fail<UsageError>("wrappers",
                     "the input has no rows to share out; got {}, expected at least one row; "
                     "try to leave out empty batches",
                     fmt::format("[{}]", fmt::join(input.sizes(), ", ")));
  }
  follow_weights();
  auto chunks = at::tensor_split(input.detach(), static_cast<int64_t>(replicas_.size()), 0);
  const bool wants_input_grad = at::GradMode::is_enabled() && input.requires_grad();
  for (size_t r = 0; r < chunks.size(); ++r) {
    chunks[r] = chunks[r].to(devices_[r]).detach().set_requires_grad(wants_input_grad);
  }
  std::vector<at::Tensor> outputs(chunks.size());
  const bool grad = at::GradMode::is_enabled();
  workers_->run(
      [&](int index) {
        auto r = static_cast<size_t>(index);
        if (chunks[r].size(0) == 0) return;
        at::AutoGradMode mode(grad);
        outputs[r] = forward_(*replicas_[r], chunks[r]);
      },
      [] {});
  size_t used = 0;
  std::vector<at::Tensor> joined;
  for (; used < outputs.size() && outputs[used].defined(); ++used) {
    joined.push_back(outputs[used].detach().to(devices_[0]));
  }
  auto out = at::cat(joined, 0);
  std::vector<at::Tensor> inputs;
  if (wants_input_grad) inputs.push_back(input);
  return nn::with_backward(out, inputs, [=, this](const at::Tensor& gradient) {
    std::vector<at::Tensor> parts;
    int64_t row = 0;
    for (size_t r = 0; r < used; ++r) {
      parts.push_back(gradient.narrow(0, row, outputs[r].size(0)).to(devices_[r]));
      row += outputs[r].size(0);
    }
    if (devices_[0].is_cuda()) {
      // This runs on an autograd thread of a device, which must run the replicas' graphs itself.
      std::vector<at::Tensor> roots, gradients;
      for (size_t r = 0; r < used; ++r) {
        if (!outputs[r].requires_grad()) continue;
        roots.push_back(outputs[r]);
        gradients.push_back(parts[r]);
      }
      if (!roots.empty()) torch::autograd::backward(roots, gradients);
    } else {
      workers_->run(
          [&](int index) {
            auto r = static_cast<size_t>(index);
            if (r < used && outputs[r].requires_grad()) {
              torch::autograd::backward({outputs[r]}, {parts[r]});
            }
          },
          [] {});
    }
    collect_gradients(used);
    if (!wants_input_grad) return std::vector<at::Tensor>{};
    std::vector<at::Tensor> input_grads;
    for (size_t r = 0; r < used; ++r) {
      const auto& grad = chunks[r].grad();
      input_grads.push_back((grad.defined() ? grad : at::zeros_like(chunks[r])).to(input.device()));
    }
    return std::vector<at::Tensor>{at::cat(input_grads, 0)};
  });
}

}  // namespace convoy::wrappers
