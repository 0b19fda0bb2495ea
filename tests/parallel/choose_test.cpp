#include "convoy/parallel/run_plan/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/parallel/pipeline/csv.h"
#include "convoy/parallel/recompute/fit.h"
#include "convoy/parallel/run_plan/run_plan.h"

// What the options of a pipeline make of a model.
namespace convoy::parallel {
namespace {

using testing::HasSubstr;

/// Eight blocks that keep 10 bytes, 2 of which they return, and put 4 off; the head has nothing to
/// put off.
struct Asked {
  Asked() {
    for (int b = 0; b < 8; ++b) {
      model.params.push_back({"weight" + std::to_string(b), {64, 64}});
      model.blocks.push_back({"block" + std::to_string(b), {b}});
      facts.counts.push_back({1, 2, 1, 10, 4, 2});
    }
    facts.counts.back() = {1, 2, 0, 10, 0, 2};
    parallelism.micro_batches = 4;
  }

  RunPlan plan() const {
    return plan_run(model, {{.pipeline = stages}, 0, stages}, parallelism, facts);
  }
  /// [stage] What it keeps at most.
  std::vector<double> peaks() const {
    const auto planned = plan();
    std::vector<double> out;
    for (size_t s = 0; s < planned.stages.size(); ++s) out.push_back(planned.timeline.peak(s));
    return out;
  }
  std::string refusal() const {
    try {
      plan();
    } catch (const UsageError& error) {
      return error.what();
    }
    return "taken";
  }

  ModelDecl model;
  Parallelism parallelism;
  StepFacts facts;
  int stages = 2;
};

TEST(Choose, AHeadThatPutsNothingOffAllowsHalves) {
  Asked it;
  it.parallelism.pipeline.schedule = &kAutomatic;
  it.parallelism.pipeline.virtual_stages = 1;
  const auto found = it.plan();
  // 1f1b's first stage keeps two micro-batches of four blocks.
  for (size_t s = 0; s < 2; ++s) EXPECT_LE(found.timeline.peak(s), 80);
  it.parallelism.pipeline.schedule = &kOneFOneB;
  EXPECT_LT(found.timeline.length, it.plan().timeline.length);
}

TEST(Choose, PlacementVHasTwoVirtualStagesWhereverTheyAreCut) {
  Asked it;
  it.parallelism.pipeline.placement = Placement::V;
  it.parallelism.pipeline.splits = {1, 2, 3, 4, 5};
  for (const auto schedule : {&kInterleaved, &kAutomatic}) {
    it.parallelism.pipeline.schedule = schedule;
    it.parallelism.pipeline.virtual_stages = 3;
    EXPECT_THAT(it.refusal(), HasSubstr("pipeline_splits needs 3 numbers for 2 stages"));
  }
}

TEST(Choose, AScheduleThatKeepsMoreThanItMayIsRefused) {
  Asked it;
  it.parallelism.pipeline.schedule = &kGPipe;
  it.parallelism.pipeline.memory = 160;
  EXPECT_EQ(it.refusal(), "taken");
  it.parallelism.pipeline.memory = 159;
  EXPECT_THAT(it.refusal(), HasSubstr("pipeline_schedule = gpipe keeps 160 bytes (160 B) for "
                                      "backward on stage 0; pipeline_memory = 159"));
  it.parallelism.pipeline.splits = {4};
  EXPECT_THAT(it.refusal(), HasSubstr("on stage 0; pipeline_memory = 159"));
  // What is advised for a schedule is enough for it; where nothing fits, the least that does is
  // told.
  it.parallelism.pipeline.memory = 39;
  for (const auto& splits : {std::vector<int64_t>{}, {4}}) {
    it.parallelism.pipeline.splits = splits;
    it.parallelism.pipeline.schedule = &kGPipe;
    EXPECT_THAT(it.refusal(), HasSubstr("try pipeline_memory = 160, pipeline_schedule = auto"));
    it.parallelism.pipeline.schedule = &kAutomatic;
    EXPECT_THAT(it.refusal(), HasSubstr("fits no schedule: one micro-batch keeps 40 B on a "
                                        "stage; try 40 or more"));
  }
  it.facts.counts.clear();
  EXPECT_THAT(it.refusal(), HasSubstr("is held against what blocks keep for backward"));
}

TEST(Choose, AutoKeepsWithinItsMemoryAndGetsFasterWithMore) {
  for (const auto& splits : {std::vector<int64_t>{}, {4}}) {
    Asked it;
    it.parallelism.pipeline.schedule = &kAutomatic;
    it.parallelism.pipeline.splits = splits;
    double before = std::numeric_limits<double>::infinity();
    for (const int64_t memory : {40, 60, 80, 160}) {
      it.parallelism.pipeline.memory = memory;
      const auto found = it.plan();
      for (size_t s = 0; s < 2; ++s) {
        EXPECT_LE(found.timeline.peak(s), static_cast<double>(memory));
      }
      EXPECT_LE(found.timeline.length, before);
      before = found.timeline.length;
    }
  }
}

TEST(Choose, AVMayNeedMoreForOneMicroBatchThanOneFOneBForAll) {
  Asked it;  // the ends lie on rank 0
  it.facts.counts.front().kept = it.facts.counts.back().kept = 100;
  it.parallelism.micro_batches = 1;
  it.parallelism.pipeline.schedule = &kAutomatic;
  it.parallelism.pipeline.virtual_stages = 2;
  it.parallelism.pipeline.placement = Placement::V;
  EXPECT_DOUBLE_EQ(it.peaks().front(), 220);
  it.parallelism.pipeline.memory = 200;
  EXPECT_THAT(it.refusal(), HasSubstr("pipeline_memory = 200 (200 B) fits no schedule"));
}

TEST(Choose, AutoSendsSeldomWhereMessagesTakeLong) {
  Asked it;
  it.parallelism.pipeline.schedule = &kAutomatic;
  it.parallelism.pipeline.virtual_stages = 2;
  it.parallelism.pipeline.placement = Placement::Loop;
  const auto near = it.plan();
  EXPECT_EQ(near.cut.size(), 4U);  // two virtual stages each: three borders
  for (auto& block : it.facts.counts) block.send = block.send_grad = 20;
  const auto far = it.plan();
  EXPECT_EQ(far.cut.size(), 2U);
  EXPECT_GT(far.timeline.length, near.timeline.length + 40);
}

TEST(Choose, BlocksAreRecomputedByStage) {
  Asked it;
  it.parallelism.recomputed.of_stage = {3, 1};
  EXPECT_EQ(it.plan().step.recomputed, (std::set<int64_t>{0, 1, 2, 4}));
  it.parallelism.recomputed.of_stage = {2};
  EXPECT_EQ(it.plan().step.recomputed, (std::set<int64_t>{0, 1, 4, 5}));
  it.parallelism.recomputed.of_stage = {1, 1, 1};
  EXPECT_THAT(it.refusal(), HasSubstr("recompute_layers = 1,1,1 has 3 numbers; expected one, or "
                                      "one for each of 2 stages"));
  // The last block's backward follows at once.
  it.parallelism.recomputed.of_stage = {0, 4};
  EXPECT_THAT(it.refusal(), HasSubstr("asks for 4 blocks of stage 1, which has 3"));
  it.stages = 1;
  it.parallelism.recomputed.of_stage = {3};
  EXPECT_EQ(it.plan().step.recomputed, (std::set<int64_t>{0, 1, 2}));
  it.parallelism.recomputed = {.to_fit = true};
  EXPECT_THAT(it.refusal(), HasSubstr("try --pipeline_parallel_size 2"));
}

TEST(Choose, FewestBlocksThatFitAreRecomputed) {
  for (const auto& splits : {std::vector<int64_t>{}, {4}}) {
    Asked it;
    it.parallelism.pipeline.splits = splits;
    it.parallelism.recomputed.to_fit = true;
    EXPECT_THAT(it.refusal(), HasSubstr("try --pipeline_memory"));
    // Two micro-batches of four blocks are 80; each block saves 8 of each.
    for (const auto& [memory, number] : {std::pair{80, 0U}, {79, 1U}, {64, 1U}, {63, 2U}}) {
      it.parallelism.pipeline.memory = memory;
      const auto plan = it.plan();
      EXPECT_EQ(plan.step.recomputed.size(), number) << memory;
      for (size_t s = 0; s < 2; ++s) EXPECT_LE(plan.timeline.peak(s), memory);
    }
    it.parallelism.pipeline.memory = 5;
    EXPECT_THAT(it.refusal(), HasSubstr("with all blocks recomputed that can be"));
    it.parallelism.pipeline.schedule = &kAutomatic;
    EXPECT_THAT(it.refusal(), HasSubstr("pipeline_memory = 5"));
    // Auto takes what is faster: a slower order, or blocks that are computed again.
    it.parallelism.pipeline.memory = 60;
    const auto found = it.plan();
    for (size_t s = 0; s < 2; ++s) EXPECT_LE(found.timeline.peak(s), 60);
    it.parallelism.recomputed.to_fit = false;
    EXPECT_LE(found.timeline.length, it.plan().timeline.length);
  }
}

TEST(Choose, AScheduleOfAFileIsFollowed) {
  for (const auto schedule : {&kOneFOneB, &kInterleaved, &kZeroBubble}) {
    Asked it;
    it.parallelism.pipeline.schedule = schedule;
    const auto made = it.plan();
    it.parallelism.pipeline = {.file = "pipe.csv", .csv = to_csv(made.orders)};
    const auto read = it.plan();
    EXPECT_EQ(read.orders, made.orders);
    EXPECT_EQ(read.cut, made.cut);
    EXPECT_EQ(read.timeline.length, made.timeline.length);
  }
  Asked it;
  it.parallelism.pipeline.schedule = &kZeroBubble;
  it.parallelism.pipeline.placement = Placement::V;
  it.parallelism.pipeline = {.file = "v.csv", .csv = to_csv(it.plan().orders)};
  it.parallelism.pipeline.splits = {1, 3, 6};
  EXPECT_EQ(stages_of(it.plan().cut), (Stages{{0, 6, 7}, {1, 2, 3, 4, 5}}));
  it.parallelism.pipeline.splits = {3};
  EXPECT_THAT(it.refusal(), HasSubstr("makes 2 virtual stages; expected 3 numbers"));
  it.parallelism.pipeline.splits.clear();
  it.parallelism.zero = 2;
  EXPECT_THAT(it.refusal(), HasSubstr("try zero_reduce = last, or zero = 1"));
  it.parallelism.zero = 0;
  it.parallelism.micro_batches = 5;
  EXPECT_THAT(it.refusal(), HasSubstr("v.csv is for 4 micro-batches"));
  it.parallelism.micro_batches = 4;
  it.parallelism.pipeline.memory = 10;
  EXPECT_THAT(it.refusal(), HasSubstr("pipeline_memory = 10"));
  it.parallelism.pipeline.memory = 0;
  it.model.blocks.resize(3), it.facts.counts.resize(3);
  EXPECT_THAT(it.refusal(), HasSubstr("v.csv has 4 virtual stages; got a model of 3 blocks"));
}

TEST(Choose, NamesTheScheduleThatAutoFound) {
  Asked it;
  it.parallelism.pipeline.schedule = &kAutomatic;
  const auto found = it.plan();
  const auto pipe = pipe_of(found.cut, 4, {}, {});  // of the named schedules none goes by costs
  EXPECT_EQ(schedule_named(pipe, found.orders), found.found);
  it.parallelism.pipeline.schedule = &kOneFOneB;
  const auto plain = it.plan();
  EXPECT_EQ(plain.found, "");
  EXPECT_EQ(schedule_named(pipe_of(plain.cut, 4), plain.orders), "1f1b");
  auto other = plain.orders;
  std::swap(other[0][0], other[0][1]);
  EXPECT_EQ(schedule_named(pipe_of(plain.cut, 4), other), "");
}

TEST(Choose, DeferredBytesAreAllThatStaysAfterTheFirstHalf) {
  Asked it;
  it.parallelism.pipeline.schedule = &kZeroBubble;
  it.parallelism.pipeline.virtual_stages = 1;
  const auto bytes = [&](int64_t put_off) {
    std::vector<BlockCost> costs(it.model.blocks.size());
    for (auto& cost : costs) {
      cost.kept_bytes = 1000;
      cost.put_off_bytes = put_off;
    }
    return plan_run(it.model, {{.pipeline = 2}, 0, 2}, it.parallelism, it.facts, costs);
  };
  const auto little = bytes(100), all = bytes(1000);
  for (size_t s = 0; s < 2; ++s) {
    EXPECT_EQ(static_cast<double>(little.stages[s].memory.activations), little.timeline.peak(s));
    EXPECT_EQ(static_cast<double>(all.stages[s].memory.activations), all.timeline.peak(s));
  }
  EXPECT_LT(little.stages[1].memory.activations, all.stages[1].memory.activations);
}

}  // namespace
}  // namespace convoy::parallel
