#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "convoy/parallel/pipeline/builders.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/parallel/pipeline/plan.h"
#include "tests/parallel/pipes.h"

namespace convoy::parallel {
namespace {

using testing::HasSubstr;

/// The pipes that a schedule can be made for.
std::vector<Pipe> pipes_for(PipelineSchedule entry, int ranks, int64_t micro_batches,
                            const std::vector<int>& virtual_stages) {
  std::vector<Pipe> out;
  for (const int v : virtual_stages) {
    if (v == 1 || entry->interleaved) out.push_back(loop_pipe(ranks, v, micro_batches));
    if (v == 2 && entry->interleaved) out.push_back(v_pipe(ranks, micro_batches));
  }
  return out;
}

void expect_sound(const std::vector<int>& ranks, const std::vector<int64_t>& micro_batches,
                  const std::vector<int>& virtual_stages) {
  for (const auto* entry : pipeline_schedules()) {
    for (const int p : ranks) {
      for (const int64_t m : micro_batches) {
        for (const auto& pipe : pipes_for(entry, p, m, virtual_stages)) {
          SCOPED_TRACE(fmt::format("{}, {} ranks, {} micro-batches, {} virtual stages{}",
                                   entry->name, p, m, pipe.num_virtual_stages(),
                                   pipe.is_v() ? " in a v" : ""));
          const auto orders = entry->orders(pipe);
          const PipelineStep step(cut_for(pipe, 1), orders, {.parallelism = {.micro_batches = m}});
          EXPECT_NO_THROW(step.check());
          const auto played = play(pipe, orders);
          ASSERT_TRUE(played.ends);
          EXPECT_GE(played.length, floor_of(pipe) * (1 - 1e-9));
        }
      }
    }
  }
}

TEST(Schedules, EveryProgramIsSound) {
  expect_sound({1, 2, 3, 5, 8}, {1, 2, 3, 7, 16}, {1, 2, 3, 4});
  expect_sound({16}, {5, 33}, {1, 2});
}

TEST(Schedules, DISABLED_EveryProgramOfTheWholeGridIsSound) {
  std::vector<int> ranks(16), virtual_stages{1, 2, 3, 4};
  std::vector<int64_t> micro_batches(64);
  std::iota(ranks.begin(), ranks.end(), 1);
  std::iota(micro_batches.begin(), micro_batches.end(), 1);
  expect_sound(ranks, micro_batches, virtual_stages);
}

TEST(Schedules, AreSoundWithShardsTiesRecomputationAndHalves) {
  for (const auto* entry : pipeline_schedules()) {
    for (const auto& pipe : pipes_for(entry, 3, 5, {1, 2})) {
      for (const int zero : {0, 1, 2, 3}) {
        for (const int64_t bucket_bytes : {0, 1 << 20}) {
          for (const bool tied : {false, true}) {
            SCOPED_TRACE(fmt::format("{}, {} virtual stages, zero {}, buckets of {}, {}",
                                     entry->name, pipe.num_virtual_stages(), zero, bucket_bytes,
                                     tied ? "tied" : "not tied"));
            auto cut = cut_for(pipe, 2);
            if (zero > 1) cut = joined(cut);  // the layout's buckets know no border in between
            const PipelineStep step(cut, entry->orders(pipe_of(cut, 5)),
                                    {.parallelism = {.micro_batches = 5}, .recomputed = {0, 2, 3}},
                                    {.parallelism = {.zero = zero, .bucket_bytes = bucket_bytes},
                                     .num_parts = zero > 0 ? 2 : 1},
                                    tied);
            EXPECT_NO_THROW(step.check());
          }
        }
      }
    }
  }
}

/// Costs of blocks that are not alike.
Costs random_costs(std::mt19937& random, int num_blocks, bool messages) {
  const auto draw = [&] { return 1 + static_cast<double>(random() % 1000) / 250; };
  Costs out;
  for (int b = 0; b < num_blocks; ++b) {
    out.forward.push_back(draw());
    out.weight.push_back(draw());
    out.backward.push_back(out.weight.back() + draw());
    out.kept.push_back(draw());
    out.put_off.push_back(out.kept.back() * static_cast<double>(random() % 100) / 100);
    out.inputs.push_back(out.kept.back() / 8);
    out.sent_bytes.push_back(draw());
    if (!messages) continue;
    out.send.push_back(draw() / 4);
    out.send_grad.push_back(draw() / 4);
  }
  return out;
}

TEST(Schedules, PlayingActionsIsSimulatingTheirPrograms) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 40; ++trial) {
    const int ranks = 2 + trial % 3;
    const int64_t m = 1 + trial % 7;
    for (const auto* entry : pipeline_schedules()) {
      for (auto& pipe : pipes_for(entry, ranks, m, {1, 2, 3})) {
        const auto cut = cut_for(pipe, 1);
        const auto costs = random_costs(random, static_cast<int>(cut.size()), trial % 2 == 1);
        const std::set<int64_t> recomputed =
            trial % 4 == 3 ? std::set<int64_t>{0} : std::set<int64_t>{};
        pipe = pipe_of(cut, m, costs, recomputed);
        const auto orders = entry->orders(pipe);
        const auto played = play(pipe, orders);
        const PipelineStep step(cut, orders,
                                {.parallelism = {.micro_batches = m}, .recomputed = recomputed});
        step.check();
        const auto timeline = simulate(step.ranks(), costs);
        EXPECT_NEAR(timeline.length, played.length, 1e-6) << entry->name;
        for (size_t r = 0; r < played.peak.size() && recomputed.empty(); ++r) {
          EXPECT_NEAR(timeline.peak(r), played.peak[r], 1e-6) << entry->name;
        }
      }
    }
  }
}

// A v is at the floor; a loop of two virtual stages is up to 4 % above it, for its stages begin
// later.
TEST(Schedules, ZeroBubbleIsAtTheFloorWithTheMemoryOf1f1b) {
  for (const int ranks : {1, 2, 3, 4, 8, 16}) {
    for (const int64_t m : {2 * ranks, 2 * ranks + 1, 4 * ranks}) {
      for (auto pipe : {v_pipe(ranks, m), loop_pipe(ranks, 1, m)}) {
        pipe.costs = equal_costs(pipe.num_virtual_stages(), ranks);
        const auto played = play(pipe, kZeroBubble.orders(pipe));
        EXPECT_LE(played.length, 1.0001 * floor_of(pipe)) << ranks << " " << m;
        EXPECT_LE(played.highest_peak(), memory_bound(pipe) + 1e-9) << ranks << " " << m;
      }
      auto pipe = loop_pipe(ranks, 2, m);
      pipe.costs = equal_costs(pipe.num_virtual_stages(), ranks);
      const auto played = play(pipe, kZeroBubble.orders(pipe));
      EXPECT_LE(played.length, 1.04 * floor_of(pipe)) << ranks << " " << m;
      EXPECT_LE(played.highest_peak(), memory_bound(pipe) + 1e-9) << ranks << " " << m;
    }
  }
}

TEST(Schedules, FloorIsTheWayOfTheFirstMicroBatchAndAllWork) {
  auto pipe = loop_pipe(3, 1, 4);
  EXPECT_EQ(floor_of(pipe), 2 + 4 * 3);
  pipe.costs = equal_costs(3, 3);
  pipe.costs.forward[0] = 5;
  pipe.costs.send = {1, 1, 1};
  EXPECT_EQ(floor_of(pipe), std::max(4 * 7, 5 + 1 + 1 + 1 + 4 * 3));
}

TEST(Schedules, NaiveKeepsOneMicroBatch) {
  auto pipe = loop_pipe(4, 1, 8);
  const auto played = play(pipe, kNaive.orders(pipe));
  EXPECT_EQ(played.length, 4 * 3 * 8);
  EXPECT_EQ(played.highest_peak(), 1);
}

TEST(Schedules, InterleavedTakesAnyNumberOfMicroBatches) {
  for (const int64_t m : {1, 3, 5, 9, 10}) {
    const auto pipe = loop_pipe(4, 2, m);
    const auto whole = loop_pipe(4, 2, (m + 3) / 4 * 4);
    const auto length = play(pipe, kInterleaved.orders(pipe)).length;
    EXPECT_LE(length, play(whole, kInterleaved.orders(whole)).length);
    EXPECT_GE(length, floor_of(pipe));
  }
}

TEST(Auto, IsNoSlowerThanAnyOtherThatFits) {
  std::mt19937 random(200);
  int faster = 0;
  double above = 0;
  for (int trial = 0; trial < 200; ++trial) {
    PlanOptions options;
    auto& pipeline = options.parallelism.pipeline;
    options.parallelism.ranks.pipeline = 2 + static_cast<int>(random() % 5);
    options.parallelism.micro_batches = 1 + static_cast<int64_t>(random() % 16);
    pipeline.virtual_stages = 1 + static_cast<int>(random() % 3);
    const auto num_blocks =
        static_cast<int>(options.parallelism.ranks.pipeline * pipeline.virtual_stages) +
        static_cast<int>(random() % 8);
    const auto costs = random_costs(random, num_blocks, trial % 2 == 1);
    pipeline.schedule = &kOneFOneB;
    const auto usual = plan_pipeline(costs, options);
    options.memory = memory_bound(usual.pipe);
    pipeline.schedule = &kAutomatic;
    const auto found = plan_pipeline(costs, options);
    EXPECT_LE(found.played.highest_peak(), options.memory * (1 + 1e-6));
    faster += found.played.length < usual.played.length * 0.99;
    above += found.above_floor();
    for (const auto* entry : pipeline_schedules()) {
      auto other = options;
      other.parallelism.pipeline.schedule = entry;
      const auto named = plan_pipeline(costs, other);
      if (named.played.highest_peak() > options.memory) continue;
      EXPECT_LE(found.played.length, named.played.length * (1 + 1e-6)) << entry->name << trial;
    }
    if (trial % 10 > 0) continue;
    const PipelineStep step(found.cut, found.orders, {.parallelism = options.parallelism});
    EXPECT_NO_THROW(step.check());
    EXPECT_EQ(plan_pipeline(costs, options).orders, found.orders);
  }
  RecordProperty("faster_than_1f1b", faster);
  RecordProperty("above_floor_permille", static_cast<int>(above * 5));
  EXPECT_GT(faster, 100);
}

TEST(Auto, SaysTheSmallestMemoryThatFits) {
  Costs costs;
  costs.forward = {1, 1, 1, 1};
  costs.backward = {2, 2, 2, 2};
  costs.kept = {100, 100, 200, 100};
  PlanOptions options{.parallelism = {.ranks = {.pipeline = 2},
                                      .micro_batches = 4,
                                      .pipeline = {.schedule = &kAutomatic, .virtual_stages = 1}},
                      .memory = 299};
  try {
    plan_pipeline(costs, options);
    FAIL() << "taken";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("pipeline_memory = 299 (299 B) fits no schedule"));
    EXPECT_THAT(error.what(), HasSubstr("try 300 or more"));
  }
  options.memory = 300;
  EXPECT_LE(plan_pipeline(costs, options).played.highest_peak(), 300);
}

TEST(Plan, AVNeedsTwoVirtualStagesAndAPipelineItsBlocks) {
  const Costs costs{{1, 1, 1, 1}, {2, 2, 2, 2}};
  const auto refusal = [&](int64_t stages, const PipelineOptions& pipeline) -> std::string {
    try {
      plan_pipeline(costs, {.parallelism = {.ranks = {.pipeline = stages}, .pipeline = pipeline}});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal(2, {.placement = Placement::V}),
              HasSubstr("pipeline_placement = v takes two virtual stages a rank; got 1 with "
                        "pipeline_schedule = 1f1b"));
  EXPECT_THAT(refusal(5, {}), HasSubstr("needs as many blocks; got 4"));
  EXPECT_THAT(refusal(3, {.schedule = &kInterleaved}),
              HasSubstr("3 stages with 2 virtual stages each needs as many blocks; got 4"));
  EXPECT_EQ(refusal(2, {.schedule = &kInterleaved, .placement = Placement::V}), "accepted");
  // Of auto a v is what was asked for, even where one virtual stage or three would be faster.
  PlanOptions v{
      .parallelism = {
          .ranks = {.pipeline = 2},
          .micro_batches = 8,
          .pipeline = {.schedule = &kAutomatic, .virtual_stages = 4, .placement = Placement::V}}};
  EXPECT_TRUE(plan_stages({{1, 1}, {2, 2}}, v).pipe.is_v());
  EXPECT_THAT(refusal(3, v.parallelism.pipeline),
              HasSubstr("2 virtual stages each needs as many blocks; got 4"));
}

TEST(Plan, TakesCostsOfStagesWithoutAModel) {
  const Costs costs{{1, 1, 1, 1}, {2, 2, 2, 2}, {1, 1, 1, 1}};
  PlanOptions options{.parallelism = {.ranks = {.pipeline = 4}, .micro_batches = 8}};
  EXPECT_NEAR(plan_stages(costs, options).played.idle(), 3.0 / 11, 1e-9);
  options.parallelism.pipeline.schedule = &kZeroBubble;
  const auto zero = plan_stages(costs, options);
  EXPECT_TRUE(zero.pipe.is_v());
  EXPECT_NEAR(zero.above_floor(), 0, 1e-9);
  options.parallelism.pipeline.schedule = &kAutomatic;
  EXPECT_LE(plan_stages(costs, options).played.length, zero.played.length + 1e-9);
}

}  // namespace
}  // namespace convoy::parallel
