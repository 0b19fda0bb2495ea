#include <gtest/gtest.h>

#include "convoy/parallel/run_plan/run_plan.h"
#include "tests/planner/testing.h"

namespace convoy::planner {
namespace {

// A training without stages knows no counts when it chooses the blocks to recompute.
TEST(Split, RecomputesTheBlocksOfATrainingWithoutStages) {
  auto model = PaperModel();
  const auto decl = model.decl();
  StepFacts facts;
  facts.counts.assign(decl.blocks.size(), {.forward = 1, .backward = 2, .weight = 1, .kept = 1});
  facts.counts[5].kept = 1000;
  const Parallelism split{.ranks = {.shard = 2}, .recomputed = {{2}}};
  const auto blocks = [&](const StepFacts& known) {
    return parallel::plan_run(decl, split.mesh(), split, known).step.recomputed;
  };
  EXPECT_NE(blocks(facts), blocks({}));
  auto numbers = model.numbers();
  auto costs = model.costs(share_of(split));
  costs[5].kept_bytes *= 100;  // where it is recomputed, less is kept
  numbers.blocks = [costs](const auto&) { return costs; };
  const auto cluster = paper_cluster(1, 2, 100 * kGiga, 100 * kGiga, 0);
  const auto with = predict(numbers, cluster, facts, split);
  EXPECT_EQ(with.memory.sum(), predict(numbers, cluster, {}, split).memory.sum());
  EXPECT_NE(with.memory.sum(), predict(numbers, cluster, split.mesh(), split, facts).memory.sum());
}

}  // namespace
}  // namespace convoy::planner
