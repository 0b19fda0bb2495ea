#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/optim/testing.h"

using namespace convoy;
using namespace convoy::optim;

namespace {

constexpr Settings kSettings{.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6};
const StepNumbers kNumbers{.learning_rate = 1e-2, .step = 7, .grad_divisor = 3};

OptimizerPtr adamw() {
  return make_optimizer("adamw_torch", kSettings);
}

FlatRange stretch_of(int64_t count) {
  return random_stretch(*adamw(), count, /*weight_decay=*/0.1);
}

/// By the paper's lines, in double precision.
FlatRange expected_of(const FlatRange& from) {
  const auto t = static_cast<double>(kNumbers.step);
  const double rate = kNumbers.learning_rate;
  auto w = from.weights.to(at::kDouble), g = from.grads.to(at::kDouble) / kNumbers.grad_divisor;
  auto m = from.states[0].to(at::kDouble), v = from.states[1].to(at::kDouble);
  m = kSettings.beta1 * m + (1 - kSettings.beta1) * g;
  v = kSettings.beta2 * v + (1 - kSettings.beta2) * g * g;
  const auto m_hat = m / (1 - std::pow(kSettings.beta1, t));
  const auto v_hat = v / (1 - std::pow(kSettings.beta2, t));
  w = w * (1 - rate * from.weight_decay) - rate * m_hat / (v_hat.sqrt() + kSettings.epsilon);
  return {w, g, {m, v}, {}};
}

}  // namespace

TEST(AdamW, IsThePapersInDoublePrecision) {
  auto stretch = stretch_of(1003);
  const auto expected = expected_of(stretch);
  adamw()->update(stretch, kNumbers);
  EXPECT_TRUE(near(stretch.weights, expected.weights));
  EXPECT_TRUE(near(stretch.states[0], expected.states[0]));
  EXPECT_TRUE(near(stretch.states[1], expected.states[1]));
}

TEST(AdamW, ChangesNothingElse) {
  auto weights = at::ones({40});
  adamw()->update(
      {weights.narrow(0, 3, 18), at::ones({18}), {at::zeros({18}), at::zeros({18})}, {}},
      {.learning_rate = 1e-2});
  EXPECT_TRUE(weights.narrow(0, 0, 3).equal(at::ones({3})));
  EXPECT_TRUE(weights.narrow(0, 21, 19).equal(at::ones({19})));
  EXPECT_TRUE((weights.narrow(0, 3, 18) < 1).all().item<bool>());
}
