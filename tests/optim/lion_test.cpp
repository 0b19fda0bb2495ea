#include "convoy/optim/built_in_optimizers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/optim/testing.h"

namespace convoy::optim {
namespace {

constexpr Settings kLion{.beta1 = 0.9, .beta2 = 0.99};
const StepNumbers kAsked{.learning_rate = 1e-2, .step = 7, .grad_divisor = 3};

/// By the paper's lines, in double precision, but for the sign of what is about zero.
void expect_lion(const FlatRange& before, const FlatRange& after) {
  const auto w = before.weights.to(at::kDouble), m = before.states[0].to(at::kDouble);
  const auto g = before.grads.to(at::kDouble) / kAsked.grad_divisor;
  const auto c = kLion.beta1 * m + (1 - kLion.beta1) * g;
  const double kept = 1 - kAsked.learning_rate * before.weight_decay;
  const auto expected = w * kept - kAsked.learning_rate * c.sign();
  const auto clear = (c.abs() > 1e-6).logical_or(c == 0);
  EXPECT_GT(clear.sum().item<int64_t>(), w.numel() - 3);
  EXPECT_TRUE(near(after.weights.masked_select(clear), expected.masked_select(clear)));
  EXPECT_TRUE(near(after.states[0], kLion.beta2 * m + (1 - kLion.beta2) * g));
}

TEST(Lion, IsThePapersInDoublePrecision) {
  const auto before = random_stretch(*make_lion(kLion), 1003, 0.1), after = copy_of(before);
  make_lion(kLion)->update(after, kAsked);
  expect_lion(before, after);
}

TEST(Lion, TensorOperationsGiveTheSameUpdate) {
  const auto before = random_stretch(*make_lion(kLion), 1003, 0.1), after = copy_of(before);
  lion_by_operations(after, kAsked, kLion);
  expect_lion(before, after);
}

TEST(Lion, MovesEachWeightByTheLearningRate) {
  auto stretch = random_stretch(*make_lion(kLion), 64);
  stretch.states[0].zero_();
  const auto before = stretch.weights.clone();
  make_lion(kLion)->update(stretch, {.learning_rate = 0.25});
  const auto moved = (before - stretch.weights).to(at::kDouble);
  EXPECT_TRUE(at::allclose(moved, 0.25 * stretch.grads.to(at::kDouble).sign(), 0, 1e-6));
}

}  // namespace
}  // namespace convoy::optim
