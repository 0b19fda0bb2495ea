#include "convoy/optim/kernel_optimizer.h"

#include <ATen/core/grad_mode.h>

namespace convoy::optim {

void KernelOptimizer::update(const FlatRange& stretch, const StepNumbers& numbers) const {
  at::NoGradGuard no_grad;
  if (stretch.weights.is_cpu()) return update_on_host(stretch, numbers);
  update_all({stretch}, numbers);
}

void KernelOptimizer::update_all(const std::vector<FlatRange>& stretches,
                                 const StepNumbers& numbers) const {
  if (stretches.empty() || stretches.front().weights.is_cpu()) {
    return Optimizer::update_all(stretches, numbers);
  }
  at::NoGradGuard no_grad;
  if (has_kernel_for(stretches)) return update_by_kernel(stretches, numbers);
  update_by_operations(stretches, numbers);
}

bool KernelOptimizer::reads_device_state(const std::vector<FlatRange>& stretches) const {
  at::NoGradGuard no_grad;
  return !stretches.empty() && !stretches.front().weights.is_cpu() && has_kernel_for(stretches);
}

bool KernelOptimizer::has_kernel_for(const std::vector<FlatRange>& stretches) const {
  return kernel().serves(
      stretches, *this,
      [this](const auto& some, const auto& numbers) { update_by_kernel(some, numbers); },
      [this](const auto& some, const auto& numbers) { update_by_operations(some, numbers); });
}

}  // namespace convoy::optim
