#include "convoy/optim/built_in_optimizers.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "convoy/optim/adamw_arithmetic.h"
#include "convoy/optim/host_weights.h"
#include "convoy/optim/kernel_optimizer.h"
#include "convoy/optim/stochastic_rounding.h"

namespace convoy::optim {

namespace {

using lanes::Bf16;
using lanes::Bits;
using lanes::Floats;

constexpr uint32_t kHalf = 0xFFFF;  // of a word: the first moment's; the other is the second's

struct Bf16Moments {
  Bf16 *first, *second;
};

[[gnu::always_inline]] inline void adamw_bf16_some(const HostWeights& at,
                                                   const Bf16Moments& moments,
                                                   const AdamWFactors& by, const uint32_t* words,
                                                   int64_t i, int64_t count) {
  Floats weights, grads, first, second;
  Bits draws{};
  lanes::load(at.weights + i, weights, count);
  lanes::load(at.grads + i, grads, count);
  lanes::load(moments.first + i, first, count);
  lanes::load(moments.second + i, second, count);
  lanes::copy(&draws, words, count, sizeof(uint32_t));
  adamw_lanes(by, weights, grads, first, second);
  at.store(weights, i, count);
  store_stochastically(first, draws & kHalf, moments.first + i, count);
  store_stochastically(second, draws >> 16, moments.second + i, count);
}

CONVOY_CLONES void adamw_bf16_span(const HostWeights& at, const Bf16Moments& moments,
                                   const AdamWFactors& by, uint64_t key, Span span) {
  while (span.length > 0) {
    DrawnWords words;
    draw_group(key, static_cast<uint64_t>(span.begin / kDrawGroup), words);
    const int64_t skipped = span.begin % kDrawGroup;
    const int64_t here = std::min(span.length, kDrawGroup - skipped);
    const uint32_t* draws = &words[0][0] + skipped;
    lanes::each(0, here, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
      adamw_bf16_some(at, moments, by, draws + i, span.place + i, count);
    });
    span.begin += here, span.place += here, span.length -= here;
  }
}

class AdamWBf16 : public KernelOptimizer {
 public:
  explicit AdamWBf16(const Settings& settings) : settings_(settings) {}

  std::string name() const override { return "adamw_bf16"; }
  std::vector<StateSpec> states() const override {
    return {{"exp_avg", at::kBFloat16}, {"exp_avg_sq", at::kBFloat16}};
  }
  bool needs_spans() const override { return true; }

 private:
  UpdateKernel& kernel() const override {
    static UpdateKernel kernel("convoy_adamw_bf16", /*draws=*/true);
    return kernel;
  }

  void update_on_host(const FlatRange& stretch, const StepNumbers& numbers) const override {
    const auto factors = adamw_factors(settings_, stretch.weight_decay, numbers);
    const HostWeights at(stretch);
    const Bf16Moments moments{static_cast<Bf16*>(stretch.states[0].mutable_data_ptr()),
                              static_cast<Bf16*>(stretch.states[1].mutable_data_ptr())};
    const auto range = [&](int64_t begin, int64_t end) {
      for (const auto& span : stretch.spans) {
        const int64_t first = std::max(begin, span.place);
        const int64_t last = std::min(end, span.place + span.length);
        if (first >= last) continue;
        adamw_bf16_span(at, moments, factors,
                        rounding_key(numbers.seed, numbers.step, span.parameter),
                        {{}, span.begin + first - span.place, first, last - first});
      }
    };
    at::parallel_for(0, stretch.weights.numel(), 1 << 15, range);
    at.finish(stretch);
  }

  void update_by_kernel(const std::vector<FlatRange>& stretches,
                        const StepNumbers& numbers) const override {
    kernel().run(stretches, numbers, adamw_factors(settings_, 0, numbers));
  }

  void update_by_operations(const std::vector<FlatRange>& stretches,
                            const StepNumbers& numbers) const override {
    for (const auto& stretch : stretches) adamw_bf16_by_operations(stretch, numbers, settings_);
  }

  Settings settings_;
};

}  // namespace

void adamw_bf16_by_operations(const FlatRange& stretch, const StepNumbers& numbers,
                              const Settings& settings) {
  at::NoGradGuard no_grad;
  const auto by = adamw_factors(settings, stretch.weight_decay, numbers);
  const auto grads = stretch.grads.mul(by.grad);
  auto first = stretch.states[0].to(at::kFloat), second = stretch.states[1].to(at::kFloat);
  first.add_(grads.sub(first), by.first);
  second.mul_(by.second_kept).add_(grads.mul(grads), by.second);
  auto weights = stretch.weights;
  weights.mul_(by.kept).sub_(first.div(second.sqrt().mul_(by.root).add_(by.epsilon)), by.rate);
  if (stretch.rounded.defined()) at::Tensor(stretch.rounded).copy_(weights);
  for (const auto& span : stretch.spans) {
    const auto key = rounding_key(numbers.seed, numbers.step, span.parameter);
    const auto words = drawn_words(key, span.begin, span.length, weights.device());
    const auto round = [&](const at::Tensor& state, const at::Tensor& values,
                           const at::Tensor& draws) {
      state.narrow(0, span.place, span.length)
          .copy_(rounded_stochastically(values.narrow(0, span.place, span.length), draws));
    };
    round(stretch.states[0], first, words.bitwise_and(int64_t{kHalf}));
    round(stretch.states[1], second, at::bitwise_right_shift(words, 16));
  }
}

OptimizerPtr make_adamw_bf16(const Settings& settings) {
  return std::make_shared<AdamWBf16>(settings);
}

}  // namespace convoy::optim
