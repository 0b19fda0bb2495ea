#include "convoy/planner/search/accuracy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace convoy::planner {
namespace {

TEST(Accuracy, TellsHowFarPredictionsAreOff) {
  std::vector<TimedSplit> trials;
  for (const double off : {0.01, -0.02, 0.03, -0.04, 0.05, 0.06, 0.07, 0.08, 0.09, -0.2}) {
    trials.push_back({1 + off, 1});
  }
  const auto errors = errors_of(trials);
  EXPECT_NEAR(errors.median, 0.05, 1e-12);
  EXPECT_NEAR(errors.nine_of_ten, 0.09, 1e-12);
  EXPECT_NEAR(errors.worst, -0.2, 1e-12);
  EXPECT_EQ(errors.to_text(),
            "median error 5.0 %, nine of ten within 9.0 %, the worst -20.0 %, of 10");
  EXPECT_EQ(errors_of({}).number, 0);
}

TEST(Accuracy, CountsPairsInTheirOrder) {
  EXPECT_EQ(kendalls_tau({{1, 1}, {2, 2}, {3, 3}}), 1);
  EXPECT_EQ(kendalls_tau({{3, 1}, {2, 2}, {1, 3}}), -1);
  EXPECT_NEAR(kendalls_tau({{1, 1}, {3, 2}, {2, 3}}), 1.0 / 3, 1e-12);
  // What a stopwatch cannot tell apart does not count.
  EXPECT_EQ(kendalls_tau({{1, 1}, {3, 2}, {2, 2.05}}), 1);
  EXPECT_EQ(kendalls_tau({{1, 1}}), 1);
}

TEST(Accuracy, RegretIsHowMuchSlowerTheFirstPlanIs) {
  EXPECT_NEAR(regret_of({{1, 1.1}, {2, 1}}), 0.1, 1e-12);
  EXPECT_EQ(regret_of({{1, 1}, {2, 1.1}}), 0);
}

TEST(Accuracy, DrawsOfEachFamilyAndNoneTwice) {
  const SearchSpace space{.num_ranks = 4, .global_batch = 16};
  constexpr int64_t kBlocks = 10;
  const auto drawn = draw_splits(space, kBlocks, 7, 24);
  EXPECT_EQ(drawn, draw_splits(space, kBlocks, 7, 24));
  EXPECT_NE(drawn, draw_splits(space, kBlocks, 8, 24));
  std::set<std::string> texts, families, all_families;
  for (const auto& split : drawn) {
    texts.insert(split.to_text());
    families.insert(split.family());
    EXPECT_EQ(split.global_batch(), 16);
    EXPECT_EQ(split.num_ranks(), 4);
    EXPECT_FALSE(split.recompute && split.blocks_recomputed() > 0);
    EXPECT_LT(split.blocks_recomputed(), kBlocks / split.ranks.pipeline);
  }
  EXPECT_EQ(texts.size(), drawn.size());
  for (const auto& split : splits_of(space)) all_families.insert(split.family());
  EXPECT_EQ(families, all_families);
  const auto more = draw_splits(space, kBlocks, 7, 100000);
  EXPECT_EQ(more.size(), splits_of(space).size());
  const auto any = [&](const auto& is) { return std::any_of(more.begin(), more.end(), is); };
  EXPECT_TRUE(any([](const Parallelism& split) { return split.blocks_recomputed() > 0; }));
  const Parallelism usual;
  EXPECT_TRUE(any([&](const Parallelism& split) { return split.gathers.prefetch == 2; }));
  EXPECT_TRUE(any([&](const Parallelism& split) {
    return split.gathers.reshard_after_forward != usual.gathers.reshard_after_forward;
  }));
  EXPECT_TRUE(
      any([&](const Parallelism& split) { return split.reduce_each != usual.reduce_each; }));
}

// By trying each number up to it this would take a minute.
TEST(Accuracy, RowsOfAHugeBatchAreFoundAtOnce) {
  const SearchSpace space{.num_ranks = 2, .global_batch = 2'000'000'000};
  for (int again = 0; again < 20; ++again) EXPECT_FALSE(splits_of(space).empty());
  const SearchSpace square{.num_ranks = 1, .global_batch = 36};
  std::set<int64_t> rows;
  for (const auto& split : splits_of(square)) rows.insert(split.rows);
  EXPECT_EQ(rows, (std::set<int64_t>{1, 2, 4, 36}));
}

}  // namespace
}  // namespace convoy::planner
