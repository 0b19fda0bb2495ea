#include "convoy/optim/adamw.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace convoy::optim {

void adamw_step(const Slice& slice, const AdamWOptions& options, double learning_rate,
                double weight_decay, int64_t step, double grad_divisor) {
  at::NoGradGuard no_grad;
  auto number = [fp32 = slice.weights.options().dtype(at::kFloat)](double value) {
    return at::full({}, value, fp32);
  };
  const auto& [first, second] = slice.moments;
  at::_fused_adamw_(slice.weights, slice.grads, first, second, {},
                    number(static_cast<double>(step)), learning_rate, options.beta1, options.beta2,
                    weight_decay, options.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false, number(grad_divisor));
}

}  // namespace convoy::optim
