#include <ATen/ATen.h>

#include "convoy/nn/attention/score_dropout.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/dropout_device.h"
#include "tests/gpu/gpu_testing.h"

namespace convoy::nn {
namespace {

using Masks = Gpu;

TEST_F(Masks, HaveTheHostsBits) {
  Context context;
  context.seed = 11;
  context.step = 3;
  const std::vector<std::pair<std::vector<int64_t>, std::vector<int64_t>>> shapes{
      {{4, 5, 7}, {}},
      {{64, 20, 448}, {}},
      {{8, 4, 20, 20}, {4, 50, 50}},
      {{4, 1, 1, 1}, {1, 9, 9}}};
  for (const auto& [sizes, extents] : shapes) {
    context.samples = at::arange(sizes[0], at::kLong) + (int64_t{1} << 32) - 1;
    const auto host = dropout_mask(sizes, 0.3, context, 1, extents);
    EXPECT_TRUE(at::equal(dropout_mask(sizes, 0.3, context, 1, extents, {}, gpu_).cpu(), host));
    const auto bounds =
        extents.empty() ? at::IntArrayRef(sizes).slice(1) : at::IntArrayRef(extents);
    const auto steps =
        mask_by_steps(sizes, bounds, {}, context.samples, mask_stream(0.3, context, 1), gpu_);
    EXPECT_TRUE(at::equal(steps.cpu(), host));
  }
}

TEST_F(Masks, DropTheScoresThatTheHostDrops) {
  Context context;
  context.seed = 11;
  context.step = 3;
  context.samples = at::arange(3, at::kLong) + (int64_t{1} << 32) - 1;
  // Whole chunks of keys, and others; a part of the heads and queries.
  for (const auto& [keys, most] : {std::pair{256, 512}, std::pair{128, 128}, std::pair{130, 512}}) {
    const ScorePlace place{{3, 2, 5, keys}, {4, most, most}, {1, 7, 0}};
    const auto weights = at::rand({3, 2, 5, keys}) + 0.5;
    const auto mask = dropout_mask(place.sizes, 0.3, context, 1, place.bounds, place.origin);
    const ScoreDropout dropout(place, 0.3, context, 1, gpu_);
    EXPECT_EQ(dropout.factor() != 1, keys % 128 == 0);
    auto on_gpu = weights.to(gpu_);
    EXPECT_TRUE(at::allclose(dropout.kept(on_gpu).cpu() * dropout.factor(), weights * mask, 1e-6));
    EXPECT_TRUE(at::equal(on_gpu.cpu(), weights));
    dropout.drop(on_gpu);
    EXPECT_TRUE(at::equal(on_gpu.cpu() == 0, mask == 0));
  }
}

TEST_F(Masks, AreDrawnByAKernelOfTheirOwn) {
  Context context;
  context.samples = at::arange(8, at::kLong);
  dropout_mask({8, 64}, 0.3, context, 1, {}, {}, gpu_);
  EXPECT_TRUE(compiles_masks());
}

}  // namespace
}  // namespace convoy::nn
