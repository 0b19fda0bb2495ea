#include "convoy/parallel/recompute/recompute.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "convoy/parallel/pipeline/builders.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "tests/parallel/pipes.h"

namespace convoy::parallel {
namespace {

using testing::HasSubstr;

struct Case {
  Cut cut;
  Orders orders;
  Costs costs;
  int64_t num_micro_batches = 4;

  /// [stage] As simulate() counts.
  std::vector<double> peaks(const std::set<int64_t>& recomputed) const {
    const PipelineStep step(
        cut, orders,
        {.parallelism = {.micro_batches = num_micro_batches}, .recomputed = recomputed});
    step.check();
    const auto timeline = simulate(step.ranks(), costs);
    std::vector<double> out;
    for (size_t r = 0; r < orders.size(); ++r) out.push_back(timeline.peak(r));
    return out;
  }
  std::set<int64_t> repeatable() const {
    std::set<int64_t> out;
    for (int64_t b = 0; b < cut.back().last_block; ++b) out.insert(b);
    return out;
  }
};

Case make_case(std::mt19937& random, bool alike) {
  const auto pipe = random() % 2 == 0 ? v_pipe(2, 4) : loop_pipe(2, 1, 4);
  Case out{
      cut_for(pipe, 3), random() % 2 == 0 ? kZeroBubble.orders(pipe) : kNaive.orders(pipe), {}};
  for (int64_t b = 0; b <= out.cut.back().last_block; ++b) {
    const double kept = alike ? 8 : 4 + static_cast<double>(random() % 8);
    out.costs.forward.push_back(1);
    out.costs.backward.push_back(2);
    out.costs.kept.push_back(kept);
    out.costs.put_off.push_back(kept / 2);
    out.costs.inputs.push_back(1);
    out.costs.sent_bytes.push_back(alike ? 1 : static_cast<double>(random() % 3));
  }
  return out;
}

TEST(Recompute, ChoosesTheFewestBlocksThatFitInEachStage) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 30; ++trial) {
    const auto it = make_case(random, trial % 2 == 0);
    const auto most = it.peaks({}), least = it.peaks(it.repeatable());
    const double part = static_cast<double>(random() % 100) / 100;
    const double memory =
        std::max(least[0], least[1]) +
        part * std::max(0.0, std::max(most[0], most[1]) - std::max(least[0], least[1]));
    const auto chosen = blocks_to_recompute(it.cut, it.orders, it.costs, it.repeatable(), memory);
    const auto stages = stages_of(it.cut);
    const auto peaks = it.peaks(chosen);
    for (size_t s = 0; s < stages.size(); ++s) {
      EXPECT_LE(peaks[s], memory + 1e-6) << trial;
      // No smaller set of the stage's blocks does.
      size_t taken = 0;
      for (const int64_t b : stages[s]) taken += chosen.contains(b);
      for (size_t mask = 0; mask < size_t{1} << stages[s].size(); ++mask) {
        std::set<int64_t> other;
        for (size_t n = 0; n < stages[s].size(); ++n) {
          if ((mask >> n & 1) != 0) other.insert(stages[s][n]);
        }
        if (other.size() >= taken || other.contains(it.cut.back().last_block)) continue;
        EXPECT_GT(it.peaks(other)[s], memory) << trial;
      }
    }
  }
}

TEST(Recompute, AdvisedMemoryIsEnoughForAllStages) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 30; ++trial) {
    const auto it = make_case(random, trial % 2 == 0);
    const auto recompute = [&](double memory) {
      return blocks_to_recompute(it.cut, it.orders, it.costs, it.repeatable(), memory);
    };
    const double least = least_memory(it.cut, it.orders, it.costs, it.repeatable());
    EXPECT_NO_THROW(recompute(least)) << trial;
    try {
      recompute(least * 0.5);
      FAIL() << "taken";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr(fmt::format("try pipeline_memory = {:.0f}", std::ceil(least))))
          << trial;
    }
  }
}

TEST(Recompute, RefusesMemoryThatNoChoiceFits) {
  std::mt19937 random(6);
  const auto it = make_case(random, true);
  try {
    blocks_to_recompute(it.cut, it.orders, it.costs, it.repeatable(), 1);
    FAIL() << "taken";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("stage 0 keeps"));
    EXPECT_THAT(error.what(), HasSubstr("pipeline_memory = 1 is less"));
  }
}

TEST(Recompute, TakesTheRequestedNumberOfBlocksOfAStage) {
  const auto pipe = loop_pipe(2, 1, 2);
  Costs costs{.forward = std::vector<double>(6, 1), .backward = std::vector<double>(6, 2)};
  costs.kept = {3, 9, 9, 5, 7, 99};
  const std::set<int64_t> repeatable{0, 1, 2, 3, 4};
  const auto cut = cut_for(pipe, 3);
  EXPECT_EQ(blocks_to_recompute(cut, {2, 1}, costs, repeatable), (std::set<int64_t>{1, 2, 4}));
  EXPECT_EQ(blocks_to_recompute(cut, {0, 2}, costs, repeatable), (std::set<int64_t>{3, 4}));
  try {
    blocks_to_recompute(cut, {0, 3}, costs, repeatable);
    FAIL() << "taken";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("recompute_layers asks for 3 blocks of stage 1, which has 2"));
  }
}

}  // namespace
}  // namespace convoy::parallel
