#include "convoy/plan/split.h"

#include <gtest/gtest.h>

#include "convoy/schedule/run/run_plan.h"
#include "tests/plan/testing.h"

namespace convoy::plan {
namespace {

// A training without stages knows no counts when it chooses the blocks to recompute.
TEST(Split, WithoutStagesRecomputesTheBlocksThatATrainingDoes) {
  const auto model = PaperModel().decl();
  schedule::RunOptions base;
  base.counts.assign(model.blocks.size(), {.forward = 1, .backward = 2, .weight = 1, .kept = 1});
  base.counts[5].kept = 1000;
  const auto recomputed = [&](const Split& split, const schedule::RunOptions& options) {
    return schedule::plan_run(model, split.mesh(), options).step.recomputed;
  };
  const Split split{.data = 2, .recomputed = 2};
  auto trained = split.options(base);
  trained.counts.clear();
  EXPECT_EQ(recomputed(split, split.options(base)), recomputed(split, trained));
  auto counted = trained;
  counted.counts = base.counts;
  EXPECT_NE(recomputed(split, counted), recomputed(split, trained));
  EXPECT_EQ(Split({.pipeline = 2}).options(base).counts.size(), model.blocks.size());
}

}  // namespace
}  // namespace convoy::plan
