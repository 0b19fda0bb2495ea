#include "convoy/optim/built_in_optimizers.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include "convoy/optim/host_weights.h"
#include "convoy/optim/kernel_optimizer.h"

namespace convoy::optim {

namespace {

using lanes::Floats;

struct LionFactors {
  float grad, kept, rate, beta1, one_less_beta1, beta2, one_less_beta2;
};

[[gnu::always_inline]] inline void lion_some(const HostWeights& at, float* moments,
                                             const LionFactors& by, int64_t i, int64_t count) {
  Floats weights, grads, moment;
  lanes::load(at.weights + i, weights, count);
  lanes::load(at.grads + i, grads, count);
  lanes::load(moments + i, moment, count);
  grads *= by.grad;
  const Floats direction = by.beta1 * moment + by.one_less_beta1 * grads;
  const Floats none{}, down = none - by.rate, up = none + by.rate;
  weights = weights * by.kept + (direction > none ? down : direction < none ? up : none);
  moment = by.beta2 * moment + by.one_less_beta2 * grads;
  at.store(weights, i, count);
  lanes::store(moment, moments + i, count);
}

CONVOY_CLONES void lion_range(const HostWeights& at, float* moments, const LionFactors& by,
                              int64_t begin, int64_t end) {
  lanes::each(begin, end, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
    lion_some(at, moments, by, i, count);
  });
}

class Lion : public KernelOptimizer {
 public:
  explicit Lion(const Settings& settings) : settings_(settings) {}

  std::string name() const override { return "lion_32bit"; }
  std::vector<StateSpec> states() const override { return {{"exp_avg"}}; }

 private:
  UpdateKernel& kernel() const override {
    static UpdateKernel kernel("convoy_lion", /*draws=*/false);
    return kernel;
  }

  LionFactors factors(const StepNumbers& numbers, double weight_decay) const {
    const auto narrow = [](double value) { return static_cast<float>(value); };
    return {
        .grad = narrow(1 / numbers.grad_divisor),
        .kept = narrow(1 - numbers.learning_rate * weight_decay),
        .rate = narrow(numbers.learning_rate),
        .beta1 = narrow(settings_.beta1),
        .one_less_beta1 = narrow(1 - settings_.beta1),
        .beta2 = narrow(settings_.beta2),
        .one_less_beta2 = narrow(1 - settings_.beta2),
    };
  }

  void update_on_host(const FlatRange& stretch, const StepNumbers& numbers) const override {
    const auto by = factors(numbers, stretch.weight_decay);
    const HostWeights at(stretch);
    auto* moments = stretch.states[0].mutable_data_ptr<float>();
    at::parallel_for(0, stretch.weights.numel(), 1 << 15,
                     [&](int64_t begin, int64_t end) { lion_range(at, moments, by, begin, end); });
    at.finish(stretch);
  }

  void update_by_kernel(const std::vector<FlatRange>& stretches,
                        const StepNumbers& numbers) const override {
    kernel().run(stretches, numbers, factors(numbers, 0));
  }

  void update_by_operations(const std::vector<FlatRange>& stretches,
                            const StepNumbers& numbers) const override {
    for (const auto& stretch : stretches) lion_by_operations(stretch, numbers, settings_);
  }

  Settings settings_;
};

}  // namespace

void lion_by_operations(const FlatRange& stretch, const StepNumbers& numbers,
                        const Settings& settings) {
  at::NoGradGuard no_grad;
  auto weights = stretch.weights, moment = stretch.states[0];
  const auto grads = stretch.grads.mul(1 / numbers.grad_divisor);
  const auto direction = moment.mul(settings.beta1).add_(grads, 1 - settings.beta1).sign_();
  weights.mul_(1 - numbers.learning_rate * stretch.weight_decay)
      .sub_(direction, numbers.learning_rate);
  moment.mul_(settings.beta2).add_(grads, 1 - settings.beta2);
  if (stretch.rounded.defined()) at::Tensor(stretch.rounded).copy_(weights);
}

OptimizerPtr make_lion(const Settings& settings) {
  return std::make_shared<Lion>(settings);
}

}  // namespace convoy::optim
