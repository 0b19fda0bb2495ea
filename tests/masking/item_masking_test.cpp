#include "convoy/masking/item_masking.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace convoy::masking {
namespace {

nn::Context context_of(const at::Tensor& samples, int64_t step = 0) {
  nn::Context context;
  context.seed = 5;
  context.step = step;
  context.samples = samples;
  return context;
}

TEST(Masking, HidesSomeItemsButNeverAllAndNoPadding) {
  auto ids = at::randint(1, 9, {400, 12}, at::kLong);
  for (int64_t row = 0; row < 400; ++row) ids[row].slice(0, row % 13).zero_();
  for (double probability : {0.01, 0.15, 0.99}) {
    auto mask = training_mask(ids, probability, context_of(at::arange(400, at::kLong)));
    EXPECT_FALSE((mask & (ids == 0)).any().item<bool>());
    auto hidden = mask.sum(1), items = (ids != 0).sum(1);
    EXPECT_TRUE(((hidden > 0) == (items > 1)).all().item<bool>());
    EXPECT_TRUE(((hidden < items) | (items < 1)).all().item<bool>());
  }
}

TEST(Masking, HidesTheAskedPart) {
  auto ids = at::ones({2000, 50}, at::kLong);
  auto mask = training_mask(ids, 0.15, context_of(at::arange(2000, at::kLong)));
  EXPECT_NEAR(mask.to(at::kDouble).mean().item<double>(), 0.15, 0.005);
}

TEST(Masking, IsAFunctionOfTheSampleAndTheStep) {
  auto ids = at::ones({6, 20}, at::kLong);
  auto all = training_mask(ids, 0.3, context_of(at::arange(6, at::kLong)));
  auto part = training_mask(ids.slice(0, 0, 2), 0.3, context_of(at::tensor({4, 1}, at::kLong)));
  EXPECT_TRUE(at::equal(part[0], all[4]));
  EXPECT_TRUE(at::equal(part[1], all[1]));
  EXPECT_FALSE(at::equal(all[0], all[1]));
  for (double probability : {0.001, 0.3, 0.999}) {  // padding of the batch does not matter
    auto narrow = training_mask(ids, probability, context_of(at::arange(6, at::kLong)));
    auto padded = at::constant_pad_nd(ids, {0, 7}, 0);
    auto wide = training_mask(padded, probability, context_of(at::arange(6, at::kLong)));
    EXPECT_TRUE(at::equal(wide.narrow(1, 0, 20), narrow)) << probability;
  }
  EXPECT_FALSE(at::equal(all, training_mask(ids, 0.3, context_of(at::arange(6, at::kLong), 1))));
}

TEST(Masking, LastItemIsTheOneBeforePadding) {
  auto ids = at::tensor({3, 4, 5, 3, 0, 0, 7, 8, 0}, at::kLong).view({3, 3});
  auto expected = at::tensor({0, 0, 1, 0, 0, 0, 0, 1, 0}, at::kLong).view({3, 3}).to(at::kBool);
  EXPECT_TRUE(at::equal(last_item_mask(ids), expected));
  EXPECT_TRUE(at::equal(session_lengths(ids), at::tensor({3, 1, 2}, at::kLong)));
}

}  // namespace
}  // namespace convoy::masking
