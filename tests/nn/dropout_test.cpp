#include "convoy/nn/dropout.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

namespace convoy::nn {
namespace {

Context context_for(std::vector<int64_t> samples, int64_t step = 3) {
  Context context;
  context.seed = 11;
  context.step = step;
  context.block = 2;
  context.samples = at::tensor(samples, at::kLong);
  return context;
}

TEST(Dropout, DependsOnTheSampleNotOnItsPlaceInTheBatch) {
  auto all = dropout_mask({4, 5, 7}, 0.3, context_for({0, 1, 2, 3}), 1);
  auto some = dropout_mask({2, 5, 7}, 0.3, context_for({3, 1}), 1);
  EXPECT_TRUE(at::equal(some[0], all[3]));
  EXPECT_TRUE(at::equal(some[1], all[1]));
  EXPECT_FALSE(at::equal(all[0], all[1]));
}

TEST(Dropout, PaddingALongerSequenceKeepsTheMask) {
  auto short_mask = dropout_mask({2, 4, 300}, 0.3, context_for({0, 1}), 1);
  auto long_mask = dropout_mask({2, 6, 300}, 0.3, context_for({0, 1}), 1);
  EXPECT_TRUE(at::equal(long_mask.narrow(1, 0, 4), short_mask));
  std::vector<int64_t> extents{3, 9, 9};
  auto small = dropout_mask({2, 3, 4, 4}, 0.3, context_for({0, 1}), 0, extents);
  auto large = dropout_mask({2, 3, 9, 9}, 0.3, context_for({0, 1}), 0, extents);
  EXPECT_TRUE(at::equal(large.narrow(2, 0, 4).narrow(3, 0, 4), small));
  EXPECT_TRUE(at::equal(large, dropout_mask({2, 3, 9, 9}, 0.3, context_for({0, 1}), 0)));
}

TEST(Dropout, LongRowsOfManyHeadsDoNotRepeatThemselves) {
  const int64_t length = 1 << 17;
  auto head = [&](int64_t index) {
    return dropout_mask({1, 1, 1, 256}, 0.5, context_for({0}), 0, {32, length, length},
                        {index, 0, 0});
  };
  EXPECT_TRUE(at::equal(head(0), dropout_mask({1, 1, 1, 256}, 0.5, context_for({0}), 0)));
  EXPECT_FALSE(at::equal(head(0), head(2)));
  EXPECT_FALSE(at::equal(head(2), head(4)));
}

TEST(Dropout, EverySiteBlockStepAndSeedDrawsAnew) {
  auto base = dropout_mask({1, 500}, 0.5, context_for({0}), 1);
  EXPECT_FALSE(at::equal(base, dropout_mask({1, 500}, 0.5, context_for({0}), 2)));
  EXPECT_FALSE(at::equal(base, dropout_mask({1, 500}, 0.5, context_for({0}, 4), 1)));
  auto other = context_for({0});
  other.seed = 12;
  EXPECT_FALSE(at::equal(base, dropout_mask({1, 500}, 0.5, other, 1)));
  other = context_for({0});
  other.block = 3;
  EXPECT_FALSE(at::equal(base, dropout_mask({1, 500}, 0.5, other, 1)));
}

TEST(Dropout, KeepsTheMeanAndTheRate) {
  for (double rate : {0.1, 0.3, 0.5}) {
    auto mask = dropout_mask({64, 1000}, rate, context_for(std::vector<int64_t>(64, 5)), 1);
    auto rows = at::arange(64, at::kLong);
    auto context = context_for({});
    context.samples = rows;
    mask = dropout_mask({64, 1000}, rate, context, 1);
    EXPECT_NEAR((mask == 0).to(at::kFloat).mean().item<double>(), rate, 0.01);
    EXPECT_NEAR(mask.mean().item<double>(), 1, 0.02);
  }
}

// Rounding 1 / (1 - 0.1) itself to bf16 makes all values and gradients 0.16 % too small.
TEST(Dropout, SixteenBitsKeepTheMean) {
  auto context = context_for({});
  context.samples = at::arange(64, at::kLong);
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    for (double rate : {0.1, 0.3}) {
      auto mask = dropout_mask({64, 1000}, rate, context, 1).to(at::kDouble);
      auto values = at::linspace(1, 2, 64000).reshape({64, 1000}).to(dtype);
      auto slope = values.flip(0);
      auto x = values.clone().requires_grad_();
      auto y = dropout(x, rate, context, 1);
      y.backward(slope);
      EXPECT_EQ(y.scalar_type(), dtype);
      auto shift = [&](const at::Tensor& got, const at::Tensor& of) {
        return got.to(at::kDouble).sum().item<double>() / (of * mask).sum().item<double>() - 1;
      };
      EXPECT_LT(std::abs(shift(y.detach(), values)), 1e-4) << rate;
      EXPECT_LT(std::abs(shift(x.grad(), slope)), 1e-4) << rate;
    }
  }
}

TEST(Dropout, IsTheIdentityOutsideTraining) {
  auto x = at::ones({2, 3});
  auto context = context_for({0, 1});
  context.mode = Mode::Evaluate;
  EXPECT_TRUE(at::equal(dropout(x, 0.5, context, 0), x));
}

TEST(Dropout, ThreadsDoNotMatter) {
  auto context = context_for({});
  context.samples = at::arange(64, at::kLong);
  at::set_num_threads(1);
  auto one = dropout_mask({64, 2000}, 0.3, context, 1);
  at::set_num_threads(2);
  EXPECT_TRUE(at::equal(one, dropout_mask({64, 2000}, 0.3, context, 1)));
  at::set_num_threads(1);
}

}  // namespace
}  // namespace convoy::nn
