#include "convoy/parallel/program/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/parallel/pipeline_testing.h"

namespace convoy::parallel {
namespace {

/// Four blocks of 1 forward and 2 backward on one stage, a bucket each.
struct OneStage {
  explicit OneStage(int zero = 0, int parts = 2, int64_t micro_batches = 1,
                    LayoutOptions offloaded = {}) {
    ModelTable table;
    std::vector<std::vector<ParamShape>> params;
    for (int64_t block = 0; block < 4; ++block) {
      table.units_of_block.push_back({block});
      params.push_back({{{64}}});
    }
    offloaded.parallelism.zero = zero;
    offloaded.num_parts = parts;
    offloaded.parallelism.bucket_bytes = 0;
    layout = Layout(table, params, offloaded);
    options.parallelism.micro_batches = micro_batches;
    program = data_parallel_program(layout, options);
  }
  double length(const StepTimes& times, int steps = 2) const {
    const std::vector<RankProgram> ranks{{program, layout}};
    const Costs costs{.forward = {1, 1, 1, 1}, .backward = {2, 2, 2, 2}};
    return simulate(ranks, costs, {times}, steps).length;
  }

  Layout layout;
  StepOptions options;
  Program program;
};

std::vector<double> each(double value) {
  return {value, value, value, value};
}

TEST(Simulate, SumsGoOnBesideTheBackward) {
  const OneStage ddp;
  EXPECT_DOUBLE_EQ(ddp.length({}), 12);
  // Each sum is shorter than the backward of the next block: only the last one shows.
  EXPECT_DOUBLE_EQ(ddp.length({.reduce = each(1.5)}), 12 + 1.5);
  // Longer ones queue up behind the first.
  EXPECT_DOUBLE_EQ(ddp.length({.reduce = each(3)}), 4 + 2 + 4 * 3);
  // Where they take the rank's own core, all of them show.
  EXPECT_DOUBLE_EQ(ddp.length({.reduce = each(1.5), .beside = 0}), 12 + 4 * 1.5);
  EXPECT_DOUBLE_EQ(ddp.length({.update = each(0.5), .totals = 0.25}), 12 + 4 * 0.5 + 0.25);
}

TEST(Simulate, LaterMicroBatchesAddTheirGradients) {
  const OneStage one(0, 1), three(0, 1, 3);
  EXPECT_DOUBLE_EQ(one.length({.accumulate = each(0.25)}), 12);
  EXPECT_DOUBLE_EQ(three.length({.accumulate = each(0.25)}), 3 * 12 + 2 * 4 * 0.25);
}

TEST(Simulate, SumsEndWhenOneIsToldSo) {
  const OneStage ddp;
  const std::vector<RankProgram> ranks{{ddp.program, ddp.layout}};
  const Costs costs{.forward = {1, 1, 1, 1}, .backward = {2, 2, 2, 2}};
  std::vector<BegunSum> told;
  const auto end_of_sums = [&](const std::vector<std::vector<BegunSum>>& begun) {
    told = begun.at(0);
    return told.back().at + 5;
  };
  const auto length = simulate(ranks, costs, {{.reduce = each(1.5), .totals = 0.25}}, 2,
                               Detail::Totals, end_of_sums)
                          .length;
  EXPECT_DOUBLE_EQ(length, 12 + 5 + 0.25);
  ASSERT_EQ(told.size(), 4U);
  EXPECT_EQ(told.front().bucket, 0);
  EXPECT_DOUBLE_EQ(told.back().at - told.front().at, 6);
}

TEST(Simulate, GathersOfUpdatesGoOnInTheNextStep) {
  const OneStage zero1(1);
  // The weights of the first block are updated and gathered first, and read first: one gather
  // shows.
  const double one = zero1.length({.gather = each(1)}, 1), two = zero1.length({.gather = each(1)});
  EXPECT_DOUBLE_EQ(one, 12);
  EXPECT_DOUBLE_EQ(two, 12 + 1);
  EXPECT_DOUBLE_EQ(zero1.length({.gather = each(1), .update = each(1)}), 12 + 4);
  // Where they take long, blocks wait for theirs: 4 + 3 of the first, then each computes 3 less.
  EXPECT_DOUBLE_EQ(zero1.length({.gather = each(4)}), 4 * 4 + 1 + 8);
}

TEST(Simulate, WeightsOfStageThreeAreGatheredAhead) {
  const OneStage zero3(3);
  const double time = zero3.length({.gather = each(0.5)});
  // But for the first of a step, each is on its way while the block before computes.
  EXPECT_GE(time, 12.5);
  EXPECT_LE(time, 13.5);
  EXPECT_GT(zero3.length({.gather = each(3)}), 12 + 3);
}

TEST(Simulate, AnUpdateWaitsForWhatIsOffloaded) {
  const OneStage moments(0, 1, 1, {.parallelism = {.offload = {.optimizer = Place::Cpu}}});
  const auto offload = [](double takes, Place place = Place::Cpu) {
    return std::map<Kind, TransferTimes>{{Kind::Moments, {place, each(takes)}}};
  };
  EXPECT_DOUBLE_EQ(moments.length({.offload = offload(0)}), 12);
  // 13 and 14: two buckets are there, then each waits for the write of the last but one: 16, 18.
  // The last two writes go on in the next step.
  EXPECT_DOUBLE_EQ(moments.length({.offload = offload(1)}), 12 + 6);
  // The first is fetched while the ranks sum up the norm, and writes hide behind long updates.
  EXPECT_DOUBLE_EQ(moments.length({.offload = offload(1), .update = each(2), .totals = 1}),
                   12 + 1 + 4 * 2);
}

TEST(Simulate, PlacesBringAndWriteBesideEachOther) {
  const OneStage both(
      2, 1, 1, {.parallelism = {.offload = {.optimizer = Place::Cpu, .gradients = Place::Cpu}}});
  const auto with = [&](Place gradients) {
    return both.length({.offload = {{Kind::Moments, {Place::Cpu, each(2)}},
                                    {Kind::Gradients, {gradients, each(2)}}}});
  };
  EXPECT_LT(with(Place::Disk), with(Place::Cpu));
  // A gradient is stored while the block before runs backward; the last two are stored and all
  // fetched before the updates.
  const std::map<Kind, TransferTimes> gradients{{Kind::Gradients, {Place::Cpu, each(0.5)}}};
  const OneStage only(2, 1, 1, {.parallelism = {.offload = {.gradients = Place::Cpu}}});
  EXPECT_DOUBLE_EQ(only.length({.offload = gradients}), 12 + 2 * 0.5 + 4 * 0.5);
}

TEST(Simulate, WeightsComeBeforeTheyAreGathered) {
  constexpr int64_t kMicroBatches = 2;
  const OneStage weights(3, 1, kMicroBatches,
                         {.parallelism = {.offload = {.parameters = Place::Cpu}}});
  const auto transfers =
      std::count_if(weights.program.begin(), weights.program.end(),
                    [](const auto& i) { return i.op == Op::Fetch || i.op == Op::Store; });
  const auto length = [&](double takes, int steps) {
    return weights.length({.offload = {{Kind::Weights, {Place::Disk, each(takes)}}}}, steps);
  };
  EXPECT_LE(length(0.1, 2), 24 + 4) << "most are fetched while the block before computes";
  EXPECT_GT(length(0.1, 2), 24);
  // A slow disk is never idle.
  EXPECT_NEAR(length(100, 3), 100.0 * static_cast<double>(transfers), 30);
}

TEST(Simulate, ASlowRankHoldsUpTheOthers) {
  const OneStage stage;
  const std::vector<RankProgram> ranks{{stage.program, stage.layout},
                                       {stage.program, stage.layout}};
  const Costs costs{.forward = {1, 1, 1, 1}, .backward = {2, 2, 2, 2}};
  EXPECT_DOUBLE_EQ(simulate(ranks, costs, {{}, {.speed = 0.5}}).length, 24);
}

TEST(Simulate, MessagesAndStagesKeepTheirTimesOverSteps) {
  const Pipeline pipeline(&kOneFOneB, 4, 8);
  const double once = simulate(pipeline.ranks(), pipeline.costs).length;
  EXPECT_DOUBLE_EQ(simulate(pipeline.ranks(), pipeline.costs, {}, 3).length, once);
}

}  // namespace
}  // namespace convoy::parallel
