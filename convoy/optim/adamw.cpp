#include "convoy/optim/built_in_optimizers.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "convoy/optim/adamw_arithmetic.h"
#include "convoy/optim/host_weights.h"
#include "convoy/optim/kernel_optimizer.h"

namespace convoy::optim {

namespace {

using lanes::Floats;

struct AdamWMoments {
  float *first, *second;
};

[[gnu::always_inline]] inline void adamw_some(const HostWeights& at, const AdamWMoments& moments,
                                              const AdamWFactors& by, int64_t i, int64_t count) {
  Floats weights, grads, first, second;
  lanes::load(at.weights + i, weights, count);
  lanes::load(at.grads + i, grads, count);
  lanes::load(moments.first + i, first, count);
  lanes::load(moments.second + i, second, count);
  adamw_lanes(by, weights, grads, first, second);
  at.store(weights, i, count);
  lanes::store(first, moments.first + i, count);
  lanes::store(second, moments.second + i, count);
}

CONVOY_CLONES void adamw_range(const HostWeights& at, const AdamWMoments& moments,
                               const AdamWFactors& by, int64_t begin, int64_t end) {
  lanes::each(begin, end, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
    adamw_some(at, moments, by, i, count);
  });
}

class AdamW : public KernelOptimizer {
 public:
  explicit AdamW(const Settings& settings) : settings_(settings) {}

  std::string name() const override { return "adamw_torch"; }
  std::vector<StateSpec> states() const override { return {{"exp_avg"}, {"exp_avg_sq"}}; }

  /// torch's fused kernel skips steps, too.
  bool reads_device_state(const std::vector<FlatRange>& stretches) const override {
    return !stretches.empty() && !stretches.front().weights.is_cpu();
  }

  int64_t updates_until_idle() const override {
    // Share of an update's step that is left: 192 updates with the usual betas.
    constexpr double kLeft = 1.9e-9;
    const double each = settings_.beta1 / std::sqrt(settings_.beta2);
    if (!(each < 1)) return 0;  // the second moment fades faster
    return each > 0 ? static_cast<int64_t>(std::ceil(std::log(kLeft) / std::log(each))) : 1;
  }

  void idle(const FlatRange& rows, const at::Tensor& kept,
            const at::Tensor& updates) const override {
    at::NoGradGuard no_grad;
    at::Tensor(rows.weights).mul_(kept);
    for (const auto& [state, beta] :
         {std::pair{rows.states[0], settings_.beta1}, std::pair{rows.states[1], settings_.beta2}}) {
      state.mul_(at::pow(beta, updates.to(at::kDouble)).to(at::kFloat));
    }
  }

 private:
  UpdateKernel& kernel() const override {
    static UpdateKernel kernel("convoy_adamw", /*draws=*/false);
    return kernel;
  }

  void update_on_host(const FlatRange& stretch, const StepNumbers& numbers) const override {
    const auto &first = stretch.states[0], &second = stretch.states[1];
    const auto factors = adamw_factors(settings_, stretch.weight_decay, numbers);
    const HostWeights at(stretch);
    const AdamWMoments moments{first.mutable_data_ptr<float>(), second.mutable_data_ptr<float>()};
    at::parallel_for(0, stretch.weights.numel(), 1 << 15, [&](int64_t begin, int64_t end) {
      adamw_range(at, moments, factors, begin, end);
    });
    at.finish(stretch);
  }

  void update_by_kernel(const std::vector<FlatRange>& stretches,
                        const StepNumbers& numbers) const override {
    kernel().run(stretches, numbers, adamw_factors(settings_, 0, numbers));
  }

  void update_by_operations(const std::vector<FlatRange>& stretches,
                            const StepNumbers& numbers) const override {
    std::map<double, std::vector<const FlatRange*>> by_decay;
    for (const auto& stretch : stretches) by_decay[stretch.weight_decay].push_back(&stretch);
    for (const auto& [decay, some] : by_decay) update_on_device(some, numbers);
    round_on_device(stretches);
  }

  /// Updates the masters of ranges with one weight decay in one call.
  void update_on_device(const std::vector<const FlatRange*>& stretches,
                        const StepNumbers& numbers) const {
    const auto fp32 = stretches.front()->weights.options().dtype(at::kFloat);
    const auto step = at::full({}, static_cast<double>(numbers.step), fp32);
    std::vector<at::Tensor> weights, grads, first, second;
    for (const auto* stretch : stretches) {
      weights.push_back(stretch->weights);
      grads.push_back(stretch->grads);
      first.push_back(stretch->states[0]);
      second.push_back(stretch->states[1]);
    }
    const std::vector<at::Tensor> steps(stretches.size(), step);
    const auto& state = numbers.device_state;
    const auto divisor =
        state.defined() ? state.select(0, 2) : at::full({}, numbers.grad_divisor, fp32);
    const auto skip = state.defined() ? std::optional(state.select(0, 1)) : std::nullopt;
    at::_fused_adamw_(weights, grads, first, second, {}, steps, numbers.learning_rate,
                      settings_.beta1, settings_.beta2, stretches.front()->weight_decay,
                      settings_.epsilon, /*amsgrad=*/false, /*maximize=*/false, divisor, skip);
  }

  /// Rounds masters to the compute dtype by one call.
  static void round_on_device(const std::vector<FlatRange>& stretches) {
    std::vector<at::Tensor> rounded, masters;
    for (const auto& stretch : stretches) {
      if (!stretch.rounded.defined()) continue;
      rounded.push_back(stretch.rounded);
      masters.push_back(stretch.weights);
    }
    if (!rounded.empty()) at::_foreach_copy_(rounded, masters);
  }

  Settings settings_;
};

}  // namespace

OptimizerPtr make_adamw(const Settings& settings) {
  return std::make_shared<AdamW>(settings);
}

}  // namespace convoy::optim
