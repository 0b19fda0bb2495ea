#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "convoy/optim/optimizer.h"

// What an optimizer does to weights without a gradient, some updates after their last one.
namespace convoy::optim {
namespace {

TEST(Idle, AdamWIsAtRestSomeUpdatesAfterTheLastGradient) {
  at::manual_seed(5);
  const auto adamw = make_optimizer();
  ASSERT_EQ(adamw->updates_until_idle(), 192);
  constexpr int64_t kRows = 5, kWidth = 8, kUpdates = 1000;
  constexpr double kDecay = 0.1, kRate = 1e-2;
  FlatRange whole{.weights = at::randn({kRows * kWidth}),
                  .grads = at::randn({kRows * kWidth}),
                  .states = {at::zeros({kRows * kWidth}), at::zeros({kRows * kWidth})},
                  .rounded = {},
                  .weight_decay = kDecay};
  adamw->update(whole, {.learning_rate = kRate, .step = 1});
  const auto zeros = at::zeros({kRows * kWidth});
  const auto view = [](const at::Tensor& t) { return t.clone().view({kRows, kWidth}); };
  FlatRange rested{.weights = {}, .grads = {}};
  double kept = 1;
  for (int64_t step = 2; step < 2 + kUpdates; ++step) {
    if (step == 2 + adamw->updates_until_idle()) {
      rested.weights = view(whole.weights);
      rested.states = {view(whole.states[0]), view(whole.states[1])};
    }
    if (rested.weights.defined()) kept *= static_cast<float>(1 - kRate * kDecay);
    whole.grads = zeros.clone();
    adamw->update(whole, {.learning_rate = kRate, .step = step});
  }
  const auto column = [](double value) { return at::full({kRows, 1}, value, at::kFloat); };
  const auto count = static_cast<double>(kUpdates - adamw->updates_until_idle());
  adamw->idle(rested, column(kept), column(count));
  const auto near = [](const at::Tensor& a, const at::Tensor& b, double tolerance) {
    return ((a - b.view(a.sizes())).abs().max() / b.abs().max()).item<double>() < tolerance;
  };
  // Each of 808 updates rounded.
  EXPECT_TRUE(near(rested.weights, whole.weights, 4e-6));
  EXPECT_TRUE(near(rested.states[1], whole.states[1], 1e-4));
  EXPECT_LT(rested.states[0].abs().max().item<double>(), 1e-30);
}

TEST(Idle, OptimizersThatNeverComeToRestReturnZero) {
  EXPECT_EQ(make_optimizer("lion_32bit")->updates_until_idle(), 0);
  EXPECT_EQ(make_optimizer("adamw_bf16")->updates_until_idle(), 0);
  // The second moment fades faster than the first.
  EXPECT_EQ(make_optimizer("adamw_torch", {.beta1 = 0.95, .beta2 = 0.9})->updates_until_idle(), 0);
  EXPECT_EQ(make_optimizer("adamw_torch", {.beta1 = 0, .beta2 = 0.9})->updates_until_idle(), 1);
}

}  // namespace
}  // namespace convoy::optim
