#include "convoy/profile/trace.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/models/testing.h"

namespace convoy::profile {
namespace {

constexpr int64_t kRows = 3, kLength = 12;

/// Texts of full length whose words are their targets.
parallel::MicroBatch texts(bool labels = true) {
  const auto ids = at::arange(kRows * kLength, at::kLong).remainder(40).add_(3).view({kRows, -1});
  parallel::MicroBatch out{{{"input_ids", ids}}, at::arange(kRows, at::kLong)};
  if (labels) out.inputs["labels"] = ids;
  return out;
}

std::vector<Products> traced(const nn::BlockList& blocks, const parallel::MicroBatch& batch,
                             at::ScalarType dtype = at::kFloat) {
  return trace(blocks, batch, {.compute_dtype = dtype});
}

double sum(const std::vector<Products>& all, double Products::* of) {
  return std::accumulate(all.begin(), all.end(), 0.0,
                         [&](double so_far, const Products& one) { return so_far + one.*of; });
}

TEST(Trace, CountsTheProductsOfALlama) {
  const models::Small size{.width = 32, .heads = 4, .layers = 3, .length = kLength};
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto config = models::small_llama(size);
    const auto all = traced(config.make_blocks(), texts(), dtype);
    const double tokens = kLength, d = 32, keys = 16, inner = 48;
    const double weights = d * d * 2 + d * keys * 2 + d * inner * 3;
    for (size_t b = 0; b < all.size(); ++b) {
      SCOPED_TRACE(b);
      if (all[b].forward == 0) continue;  // a table is looked up
      if (b + 1 == all.size()) {          // its loss gives gradients in forward
        EXPECT_NEAR(all[b].forward + all[b].backward, 3 * 2 * (tokens - 1) * 50 * d, 1e3);
        continue;
      }
      EXPECT_EQ(all[b].forward, 2 * tokens * (weights + 2 * d * kLength));
      EXPECT_GE(all[b].backward, 1.9 * all[b].forward);
    }
  }
}

TEST(Trace, AHeadCostsByItsTargetsAndADecoderByItsOwnLength) {
  auto bert = models::small_bert({.ids = 500, .width = 32, .length = kLength});
  const auto few = traced(bert.make_blocks(), texts(false));
  EXPECT_GT(sum(few, &Products::forward), 0);
  auto t5 = models::small_t5({.ids = 60, .width = 32, .layers = 2});
  auto batch = texts();
  const auto whole = traced(t5.make_blocks(), batch);
  batch.inputs["labels"] = batch.inputs["labels"].narrow(1, 0, 3).contiguous();
  const auto part = traced(t5.make_blocks(), batch);
  EXPECT_LT(part.back().forward, 0.5 * whole.back().forward);
}

}  // namespace
}  // namespace convoy::profile
