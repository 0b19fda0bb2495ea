#include <ATen/ATen.h>

#include "convoy/nn/dropout.h"
#include "convoy/nn/dropout_device.h"
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

TEST_F(Masks, AreDrawnByAKernelOfTheirOwn) {
  Context context;
  context.samples = at::arange(8, at::kLong);
  dropout_mask({8, 64}, 0.3, context, 1, {}, {}, gpu_);
  EXPECT_TRUE(compiles_masks());
}

}  // namespace
}  // namespace convoy::nn
