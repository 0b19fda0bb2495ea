#include "convoy/optim/adamw.h"

#include <ATen/Functions.h>

namespace convoy::optim {

void adamw_step(const Slices& slices, const AdamWOptions& options, double learning_rate,
                double weight_decay, int64_t step, double grad_divisor) {
  if (slices.weights.empty()) return;
  at::NoGradGuard no_grad;
  auto fp32 = slices.weights[0].options().dtype(at::kFloat);
  std::vector<at::Tensor> steps(slices.weights.size(),
                                at::full({}, static_cast<double>(step), fp32));
  at::_fused_adamw_(slices.weights, slices.grads, slices.moments[0], slices.moments[1], {}, steps,
                    learning_rate, options.beta1, options.beta2, weight_decay, options.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false, at::full({}, grad_divisor, fp32));
}

}  // namespace convoy::optim
