#include "convoy/train/loop/block_numbers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace convoy::train {
namespace {

at::Tensor rows_with(double value, int64_t row) {
  auto out = at::ones({3, 2});
  out[row][1] = value;
  return out;
}

TEST(BlockRecorder, NamesTheFirstBlockMicroBatchAndSample) {
  BlockRecorder recorder;
  const auto first = at::tensor({4, 5, 6}, at::kLong), second = at::tensor({7, 8, 9}, at::kLong);
  recorder.output(0, 0, first, {{"hidden", at::ones({3, 2})}});
  recorder.output(1, 0, first, {{"hidden", at::ones({3, 2})}});
  recorder.output(0, 1, second, {{"hidden", at::ones({3, 2})}});
  recorder.output(1, 1, second, {{"hidden", rows_with(NAN, 2)}});
  recorder.gradient(0, 1, second, {{"hidden", rows_with(INFINITY, 0)}});
  const auto* bad = recorder.first_not_finite();
  ASSERT_NE(bad, nullptr);
  EXPECT_EQ(bad->block, 1);
  EXPECT_FALSE(bad->is_gradient);
  EXPECT_EQ(bad->micro_batch, 1);
  EXPECT_EQ(bad->sample, 9);
  EXPECT_EQ(bad->not_finite, 1);
}

TEST(BlockRecorder, AddsUpTheMicroBatchesOfABlock) {
  BlockRecorder recorder;
  const auto samples = at::tensor({0, 1, 2}, at::kLong);
  recorder.output(0, 0, samples,
                  {{"hidden", at::full({3, 2}, 2.0)}, {"ids", at::ones({3}, at::kLong)}});
  recorder.output(0, 1, samples, {{"hidden", at::full({3, 2}, -3.0)}});
  ASSERT_EQ(recorder.numbers().size(), 1U);
  EXPECT_NEAR(recorder.numbers()[0].norm(), std::sqrt(6 * 4 + 6 * 9), 1e-6);
  EXPECT_EQ(recorder.numbers()[0].largest, 3);
  EXPECT_EQ(recorder.first_not_finite(), nullptr);
}

}  // namespace
}  // namespace convoy::train
