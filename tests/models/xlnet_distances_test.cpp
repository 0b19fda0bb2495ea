#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "convoy/models/xlnet/xlnet.h"

namespace convoy::models {
namespace {

constexpr int64_t kDistanceWidth = 64, kLongestRow = 32;

/// Distances that a batch of rows of `length` reads, by distance from -length.
at::Tensor distances(int64_t length, double rate, const nn::Context& context) {
  nn::Bundle bundle{{"hidden", at::zeros({2, length, kDistanceWidth})}};
  put_xlnet_guides(bundle, /*causal=*/true);
  drop_distances(bundle, rate, kLongestRow, context);
  return bundle.at("distances");
}

// As in transformers' XLNetModel: pos_emb = self.dropout(pos_emb).
TEST(XlnetDistances, AreDroppedInTrainingOnly) {
  const nn::Context train{.mode = nn::Mode::Train, .seed = 3, .step = 5};
  const auto whole = distances(20, 0, train), some = distances(20, .25, train);
  const auto dropped = some.eq(0).logical_and(whole.ne(0));
  const auto share = dropped.sum().item<double>() / whole.ne(0).sum().item<double>();
  EXPECT_NEAR(share, .25, .03);
  EXPECT_TRUE(at::allclose(some.masked_select(~dropped), whole.masked_select(~dropped) / .75));
  for (const auto mode : {nn::Mode::Evaluate, nn::Mode::Predict}) {
    EXPECT_TRUE(at::equal(distances(20, .25, {.mode = mode, .seed = 3, .step = 5}), whole));
  }
}

// Micro-batches of a step have rows of other lengths; steps have other masks.
TEST(XlnetDistances, DoNotDependOnTheLengthOfRowsInAStep) {
  const nn::Context train{.mode = nn::Mode::Train, .seed = 3, .step = 5};
  const auto whole = distances(20, .25, train), part = distances(12, .25, train);
  EXPECT_TRUE(at::equal(whole.narrow(0, 8, 24), part));
  const nn::Context later{.mode = nn::Mode::Train, .seed = 3, .step = 6};
  EXPECT_FALSE(at::equal(whole, distances(20, .25, later)));
}

}  // namespace
}  // namespace convoy::models
