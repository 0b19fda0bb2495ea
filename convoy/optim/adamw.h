#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace convoy::optim {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
};

/// What AdamW keeps of each weight, fp32 and zero at first, by the names it is saved under.
inline constexpr std::array kMoments{"exp_avg", "exp_avg_sq"};

/// A flat slice.
struct Slice {
  at::Tensor weights;  ///< fp32 masters, updated in place
  at::Tensor grads;    ///< fp32; of no use afterwards
  std::array<at::Tensor, kMoments.size()> moments;
  at::Tensor rounded;  ///< the weights in the compute dtype; undefined where that is fp32
};

/// One AdamW update (Loshchilov and Hutter, 2019): on a processor in one pass over the slice, which
/// also rounds the new weights to bf16; elsewhere by torch's fused kernel.
/// `step` counts from 1; gradients are divided by `grad_divisor` on the way.
void adamw_step(const Slice& slice, const AdamWOptions& options, double learning_rate,
                double weight_decay, int64_t step, double grad_divisor);

}  // namespace convoy::optim
