#include "convoy/parallel/run_plan/measured.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "tests/parallel/pipes.h"

namespace convoy::parallel {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Two stages of two blocks each, two micro-batches.
RunPlan planned(const char* schedule = "zero_bubble") {
  const auto pipe = loop_pipe(2, 1, 2);
  const auto orders = parse_schedule(schedule)->orders(pipe);
  const PipelineStep step(cut_for(pipe, 2), orders, {.parallelism = {.micro_batches = 2}});
  RunPlan out;
  for (size_t stage = 0; stage < 2; ++stage) {
    out.stages.push_back({.layout = step.layouts[stage], .step = step.programs[stage]});
  }
  return out;
}

class MeasuredSteps : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("convoy_measured_{}", ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// What a rank did: each instruction takes 2 ms, of which 1 ms nothing.
  void run(const RunPlan& plan, size_t stage, double begin = 0, int thread = 7) {
    for (const auto& i : plan.stages[stage].step) {
      event(to_text(i), begin, thread);
      begin += 2000;
    }
  }
  void event(const std::string& name, double ts, int thread = 7,
             const char* category = "user_annotation") {
    events_.push_back({{"ph", "X"},
                       {"cat", category},
                       {"name", name},
                       {"pid", 1},
                       {"tid", thread},
                       {"ts", ts},
                       {"dur", 1000}});
  }
  void write(const char* name, int num_ranks) {
    write_file(folder_ / name, json_line({{"distributedInfo", {{"world_size", num_ranks}}},
                                          {"traceEvents", std::exchange(events_, Json::array())}}));
  }
  std::string refusal(const RunPlan& plan) const {
    try {
      measured_steps(folder_ / "t.json", plan);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  }

  fs::path folder_;
  Json events_ = Json::array();
};

TEST_F(MeasuredSteps, AreReadOfTheFirstRankOfEachStage) {
  const auto plan = planned();
  // An evaluation comes before the second step, and torch's operations are everywhere.
  run(plan, 0);
  event("forward block 0, micro-batch 0", 500'000);
  event("aten::mm", 600'000, 7, "cpu_op");
  run(plan, 0, 1'000'000);
  write("t.json", 4);
  run(plan, 1, 3000);
  run(plan, 1, 1'005'000);
  write("t.rank2.json", 4);  // ranks 0 and 1 are stage 0
  const auto steps = measured_steps(folder_ / "t.json", plan);
  ASSERT_EQ(steps.size(), 2U);
  for (const auto& step : steps) {
    ASSERT_EQ(step.ranks.size(), 2U);
    EXPECT_EQ(step.ranks[0].front().begin, 0);
    EXPECT_EQ(to_text(step.ranks[1].back().instruction),
              "backward weight of block 2, micro-batch 1");
    for (const auto& rank : step.ranks) {
      for (const auto& [i, begin, end] : rank) EXPECT_NEAR(end - begin, 1e-3, 1e-9);
    }
  }
  // The second stage loads and receives before its first block.
  const double later = steps[1].ranks[1].front().begin - steps[0].ranks[1].front().begin;
  EXPECT_NEAR(later, 2e-3, 1e-9);
  EXPECT_EQ(steps[0].length, steps[0].ranks[1].back().end);
}

TEST_F(MeasuredSteps, ThreadsShareOneTraceFile) {
  const auto plan = planned("1f1b");
  run(plan, 0, 0, 11);
  run(plan, 1, 4000, 12);
  write("t.json", 1);
  const auto steps = measured_steps(folder_ / "t.json", plan);
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].ranks[1].size(), 8U);
}

TEST_F(MeasuredSteps, RefuseTracesOfAnotherPlan) {
  const auto plan = planned();
  EXPECT_THAT(refusal(plan), HasSubstr("cannot read the trace"));
  write_file(folder_ / "t.json", "{");
  EXPECT_THAT(refusal(plan), HasSubstr("t.json is no trace of convoy train"));
  write("t.json", 3);
  EXPECT_THAT(refusal(plan), HasSubstr("of a training on 3 ranks, which 2 stages do not divide"));
  run(plan, 0);
  write("t.json", 1);
  EXPECT_THAT(refusal(plan), HasSubstr("t.json has no step of stage 1 of 2"));
  run(plan, 0);
  write("t.json", 2);
  EXPECT_THAT(refusal(plan), HasSubstr("cannot read the trace"));  // t.rank1.json
  const auto other = planned("gpipe");
  run(other, 0, 0, 1);
  run(other, 1, 0, 2);
  write("t.json", 1);
  EXPECT_THAT(refusal(plan),
              HasSubstr("t.json has another schedule: stage 1 does 'backward block 3, micro-batch "
                        "0' where this one has 'backward input of block 3, micro-batch 0'"));
  event("forward block 1, micro-batch 0", 0);
  event("forward block 2, micro-batch 0", 1);
  event("clip", 2);
  write("t.json", 1);
  EXPECT_THAT(refusal(plan), HasSubstr("'forward block 2, micro-batch 0' on the rank of stage 0, "
                                       "but this schedule has the block on stage 1"));
  event("forward block 9, micro-batch 0", 0);
  event("clip", 2);
  write("t.json", 1);
  EXPECT_THAT(refusal(plan), HasSubstr("a block that this model has not"));
  event("forward block 1, micro-batch 0", 0);
  event("clip", 2);
  write("t.json", 1);
  EXPECT_THAT(refusal(plan),
              HasSubstr("stage 0 does 'forward block 1, micro-batch 0' where this one has 'forward "
                        "block 0, micro-batch 0'"));
  const auto& whole = plan.stages[0].step;
  for (size_t i = 0; i < whole.size() / 2; ++i) event(to_text(whole[i]), static_cast<double>(i));
  event("clip", 1000);
  write("t.json", 1);
  EXPECT_THAT(refusal(plan), HasSubstr("stage 0 does 'clip' where this one has '"));
}

TEST(BlockInstruction, IsReadFromItsTextAlone) {
  for (const auto op :
       {Op::Forward, Op::Recompute, Op::Backward, Op::BackwardInput, Op::BackwardWeight}) {
    const Instruction i{.op = op, .block = 12, .micro_batch = 3};
    EXPECT_EQ(block_instruction(to_text(i)), i);
    EXPECT_FALSE(block_instruction("start: " + to_text(i)));
    EXPECT_FALSE(block_instruction(to_text(i) + " "));
  }
  for (const char* other : {"clip", "forward block ", "forward block 1", "loss, micro-batch 1",
                            "send block 1, micro-batch 0, to rank 1"}) {
    EXPECT_FALSE(block_instruction(other)) << other;
  }
}

}  // namespace
}  // namespace convoy::parallel
