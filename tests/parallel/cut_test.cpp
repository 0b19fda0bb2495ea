#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <random>

#include "convoy/base/error.h"
#include "convoy/parallel/pipeline/cut_search.h"

namespace convoy::parallel {
namespace {

Ends ends_of(const Cut& cut) {
  Ends out;
  for (const auto& stretch : cut) out.push_back(static_cast<size_t>(stretch.last_block) + 1);
  return out;
}

/// The best of all cuts.
CutScore best_score(const CutProblem& problem, Ends& ends, size_t begin = 0) {
  const size_t left = problem.num_stretches() - ends.size();
  if (left == 0) return score(problem, ends);
  CutScore best{1e300, 0, 0};
  const size_t first = left == 1 ? problem.num_blocks() : begin + 1;
  for (size_t end = first; end + left <= problem.num_blocks() + 1; ++end) {
    ends.push_back(end);
    const auto one = best_score(problem, ends, end);
    if (is_better(one, best)) best = one;
    ends.pop_back();
  }
  return best;
}

TEST(CutBlocks, NoCutIsBetter) {
  std::mt19937 random(18);
  const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
  for (int trial = 0; trial < 400; ++trial) {
    const int stages = 1 + below(4), virtual_stages = 1 + below(4);
    if (stages * virtual_stages > 12) continue;
    const auto placement = virtual_stages == 2 && below(2) == 1 ? Placement::V : Placement::Loop;
    const int num_blocks = stages * virtual_stages + below(6), kind = below(3);
    std::vector<double> costs;
    for (int b = 0; b < num_blocks; ++b) {
      costs.push_back(kind == 0   ? below(4)
                      : kind == 1 ? below(1000) / 100.0
                                  : 1.0 + (b + 1 == num_blocks ? below(6) : 0));
    }
    const CutProblem problem(costs, stages, virtual_stages, placement);
    Ends none;
    const auto best = best_score(problem, none);
    const auto cut = cut_blocks(costs, stages, virtual_stages, placement);
    EXPECT_FALSE(is_better(best, score(problem, ends_of(cut))))
        << stages << " stages, " << virtual_stages << " virtual stages, " << name_of(placement)
        << ", trial " << trial;
    for (size_t v = 0; v < cut.size(); ++v) {
      EXPECT_EQ(cut[v].stage, static_cast<int>(problem.stage_of(v)));
    }
  }
}

// GPT-2 124M: a table that is looked up, twelve layers, the output matrix.
TEST(CutBlocks, DearestStageCountsBeforeTheDearestVirtualStage) {
  std::vector<double> costs(14, 7.08);
  costs.front() = 0;
  costs.back() = 38.6;
  for (const auto placement : {Placement::Loop, Placement::V}) {
    const CutProblem problem(costs, 2, 2, placement);
    const auto cut = cut_blocks(costs, 2, 2, placement);
    EXPECT_NEAR(std::get<0>(score(problem, ends_of(cut))), 63.7, 0.1) << name_of(placement);
  }
}

TEST(CutBlocks, IsFoundAtOnceForLargeModels) {
  std::mt19937 random(3);
  const auto start = std::chrono::steady_clock::now();
  int cuts = 0;
  for (const int stages : {2, 8, 16}) {
    for (int virtual_stages = 1; virtual_stages <= 4; ++virtual_stages) {
      std::vector<double> costs;
      for (int b = 0; b < 128; ++b) costs.push_back(1 + static_cast<double>(random() % 1000) / 100);
      for (const auto placement : {Placement::Loop, Placement::V}) {
        if (placement == Placement::V && virtual_stages != 2) continue;
        const auto cut = cut_blocks(costs, stages, virtual_stages, placement);
        EXPECT_EQ(cut.size(), static_cast<size_t>(stages) * static_cast<size_t>(virtual_stages));
        ++cuts;
      }
    }
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), cuts);
}

// Layers that are all alike, and a dear head: what whole layers allow is the best.
TEST(CutBlocks, ManyVirtualStagesOfEqualLayers) {
  std::vector<double> costs(128, 1);
  costs.front() = 0.1;
  costs.back() = 5.3;
  for (const int virtual_stages : {3, 4}) {
    const CutProblem problem(costs, 8, virtual_stages, Placement::Loop);
    const auto cut = cut_blocks(costs, 8, virtual_stages);
    EXPECT_NEAR(std::get<0>(score(problem, ends_of(cut))), 17, 1e-9);
  }
}

TEST(CutBlocks, AVGivesTheFirstStageTheFirstAndTheLastStretch) {
  const auto cut = cut_blocks({1, 1, 1, 1, 1, 1}, 3, 2, Placement::V);
  EXPECT_EQ(stages_of(cut), (Stages{{0, 5}, {1, 4}, {2, 3}}));
  EXPECT_EQ(stages_of(cut_blocks({1, 1, 1, 1}, 2, 2, Placement::V)), (Stages{{0, 3}, {1, 2}}));
  EXPECT_THROW(cut_blocks({1, 1, 1}, 1, 3, Placement::V), InternalError);
  EXPECT_EQ(placement("v"), Placement::V);
  EXPECT_THROW(placement("w"), UsageError);
}

TEST(CutBlocks, HundredsOfStagesAreNoTrouble) {
  const std::vector<double> costs(1032, 1);
  EXPECT_EQ(cut_blocks(costs, 1024).size(), 1024U);
  EXPECT_EQ(cut_blocks(costs, 512, 2, Placement::V).size(), 1024U);
  EXPECT_EQ(cut_blocks(costs, 64, 4).size(), 256U);
}

// Too many for the best cut of all; what is found is near the mean.
TEST(CutBlocks, AThousandLayersTakeNoLonger) {
  std::vector<double> costs(1002, 1);
  costs.back() = 20;
  const auto began = std::clock();
  for (const int stages : {2, 4, 8, 16}) {
    for (const auto placement : {Placement::Loop, Placement::V}) {
      const CutProblem problem(costs, stages, 2, placement);
      const auto ends = ends_of(cut_blocks(costs, stages, 2, placement));
      EXPECT_LT(std::get<0>(score(problem, ends)), problem.total() / stages + 2);
    }
  }
  EXPECT_LT(static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC, 10);
}

TEST(CutBlocks, LayoutJoinsNeighbouringStretchesOfARank) {
  const auto cut = cut_at({1, 2, 3}, 4, 2, Placement::V);
  const Layout layout({{{0}, {1}, {2}, {3}}, {}}, {{{{32}}}, {{{32}}}, {{{32}}}, {{{32}}}},
                      {.stages = stages_of(cut)});
  EXPECT_EQ(cut_of(layout), (Cut{{0, 0, 0}, {1, 2, 1}, {3, 3, 0}}));
  EXPECT_EQ(joined(cut), cut_of(layout));
}

}  // namespace
}  // namespace convoy::parallel
