#include "convoy/nn/layers/dropout.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "convoy/nn/layers/dropout_device.h"

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

struct MaskShape {
  std::vector<int64_t> sizes, extents;
};

TEST(Dropout, MasksOfDevicesHaveTheHostsBits) {
  const std::vector<MaskShape> shapes{{{4, 5, 7}, {}},
                                      {{3, 200}, {}},
                                      {{2, 3, 20, 20}, {3, 50, 50}},
                                      {{2, 2, 7, 130}, {2, 300, 300}},
                                      {{2, 1, 1, 1}, {3, 9, 9}},
                                      {{3, 9, 64}, {}},
                                      {{2, 3, 128, 2}, {3, 200, 127}},
                                      {{3, 1}, {}},
                                      {{4}, {}}};
  for (const auto& [sizes, extents] : shapes) {
    for (double rate : {0.1, 0.5, 0.77}) {
      std::vector<int64_t> samples{7, 0, (int64_t{1} << 33) + 5, int64_t{1} << 32};
      samples.resize(static_cast<size_t>(sizes[0]));
      const auto context = context_for(samples);
      const auto host = dropout_mask(sizes, rate, context, 1, extents);
      const auto stream = mask_stream(rate, context, 1);
      const auto inner = at::IntArrayRef(sizes).slice(1);
      const auto bounds = extents.empty() ? inner : at::IntArrayRef(extents);
      const auto steps = mask_by_steps(sizes, bounds, {}, context.samples, stream, at::kCPU);
      EXPECT_TRUE(at::equal(steps, host)) << at::IntArrayRef(sizes) << rate;
      // The kernel, element by element.
      const auto rows = host.reshape({sizes[0], -1});
      for (int64_t row = 0; row < rows.size(0); ++row) {
        for (int64_t i = 0; i < rows.size(1); ++i) {
          int64_t position = 0, rest = i, stride = 1;
          for (size_t dim = inner.size(); dim-- > 0;) {
            position += rest % inner[dim] * stride;
            rest /= inner[dim];
            stride *= bounds[dim];
          }
          const int bits = mask_element(position, samples[static_cast<size_t>(row)], stream);
          ASSERT_EQ(std::bit_cast<float>(bits), rows[row][i].item<float>());
        }
      }
    }
  }
}

TEST(Dropout, MasksOfDevicesCountBeyondTwoToThe32) {
  // Only the end of a long row: four lines, as of attention over 40,000 positions.
  const auto context = context_for({3});
  const auto stream = mask_stream(0.4, context, 1);
  const std::vector<int64_t> sizes{1, 2, 2, 150}, bounds{2, 60000, 60000};
  const auto host = dropout_mask(sizes, 0.4, context, 1, bounds).view({2, 2, 150});
  EXPECT_TRUE(at::equal(
      mask_by_steps(sizes, bounds, {}, context.samples, stream, at::kCPU).view({2, 2, 150}), host));
  const int64_t start = (int64_t{60000} + 1) * 60000;
  EXPECT_GT(start, int64_t{1} << 31);
  for (int64_t i = 0; i < 150; ++i) {
    ASSERT_EQ(std::bit_cast<float>(mask_element(start + i, 3, stream)),
              host[1][1][i].item<float>());
  }
}

}  // namespace
}  // namespace convoy::nn
