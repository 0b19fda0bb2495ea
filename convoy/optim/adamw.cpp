#include "convoy/optim/adamw.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "convoy/base/lanes.h"

namespace convoy::optim {

namespace {

using lanes::Bf16;
using lanes::Floats;
using lanes::kLanes;

struct Memory {
  float *weights, *first, *second;
  const float* grads;
  Bf16* rounded;  // or null
};

struct Factors {
  float grad, kept, first, second, second_kept, root, epsilon, rate;
};

[[gnu::always_inline]] inline void update_some(const Memory& at, const Factors& by, int64_t i,
                                               int64_t count) {
  Floats weights, grads, first, second, root;
  lanes::load(at.weights + i, weights, count);
  lanes::load(at.grads + i, grads, count);
  lanes::load(at.first + i, first, count);
  lanes::load(at.second + i, second, count);
  grads *= by.grad;
  first += by.first * (grads - first);
  second = second * by.second_kept + by.second * grads * grads;
  for (int lane = 0; lane < kLanes; ++lane) root[lane] = std::sqrt(second[lane]);
  weights = weights * by.kept - by.rate * first / (root * by.root + by.epsilon);
  lanes::store(weights, at.weights + i, count);
  lanes::store(first, at.first + i, count);
  lanes::store(second, at.second + i, count);
  if (at.rounded != nullptr) lanes::store(weights, at.rounded + i, count);
}

CONVOY_CLONES void update(const Memory& at, const Factors& by, int64_t begin, int64_t end) {
  lanes::each(begin, end, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
    update_some(at, by, i, count);
  });
}

void update_on_host(const Slice& slice, const Factors& factors) {
  const auto& [first, second] = slice.moments;
  const auto& rounded = slice.rounded;
  const bool rounds = rounded.defined() && rounded.is_cpu() && rounded.is_contiguous() &&
                      rounded.scalar_type() == at::kBFloat16;
  const Memory memory{slice.weights.mutable_data_ptr<float>(), first.mutable_data_ptr<float>(),
                      second.mutable_data_ptr<float>(), slice.grads.const_data_ptr<float>(),
                      rounds ? static_cast<Bf16*>(slice.rounded.mutable_data_ptr()) : nullptr};
  at::parallel_for(0, slice.weights.numel(), 1 << 15,
                   [&](int64_t begin, int64_t end) { update(memory, factors, begin, end); });
  if (slice.rounded.defined() && !rounds) slice.rounded.copy_(slice.weights);
}

}  // namespace

void adamw_step(const Slice& slice, const AdamWOptions& options, double learning_rate,
                double weight_decay, int64_t step, double grad_divisor) {
  at::NoGradGuard no_grad;
  if (slice.weights.is_cpu()) {
    const auto correction = [&](double beta) {
      return 1 - std::pow(beta, static_cast<double>(step));
    };
    auto narrow = [](double value) { return static_cast<float>(value); };
    return update_on_host(slice, {.grad = narrow(1 / grad_divisor),
                                  .kept = narrow(1 - learning_rate * weight_decay),
                                  .first = narrow(1 - options.beta1),
                                  .second = narrow(1 - options.beta2),
                                  .second_kept = narrow(options.beta2),
                                  .root = narrow(1 / std::sqrt(correction(options.beta2))),
                                  .epsilon = narrow(options.epsilon),
                                  .rate = narrow(learning_rate / correction(options.beta1))});
  }
  auto number = [fp32 = slice.weights.options().dtype(at::kFloat)](double value) {
    return at::full({}, value, fp32);
  };
  const auto& [first, second] = slice.moments;
  at::_fused_adamw_(slice.weights, slice.grads, first, second, {},
                    number(static_cast<double>(step)), learning_rate, options.beta1, options.beta2,
                    weight_decay, options.epsilon,
                    /*amsgrad=*/false, /*maximize=*/false, number(grad_divisor));
  if (slice.rounded.defined()) slice.rounded.copy_(slice.weights);
}

}  // namespace convoy::optim
