#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "convoy/base/error.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "tests/parallel/pipeline_testing.h"
#include "tests/parallel/pipes.h"

// One of one's own is an order of actions and a line: PipelineSchedule.EveryProgramIsSound proves
// it like the others.
namespace convoy::parallel {
namespace {

/// Each micro-batch goes there and back before the next one comes: the longest bubble there is.
Orders one_by_one(const Pipe& pipe) {
  Orders out;
  for (int rank = 0; rank < pipe.num_ranks(); ++rank) {
    auto& order = out.emplace_back();
    const int64_t own = pipe.virtual_stages_of(rank).front();
    for (int64_t m = 0; m < pipe.num_micro_batches; ++m) {
      for (const auto kind : {ActionKind::Forward, ActionKind::Backward}) {
        order.push_back({own, kind, m});
      }
    }
  }
  return out;
}

const auto kOneByOne = add_pipeline_schedule(
    {.name = "one_by_one", .help = "one micro-batch at a time", .orders = one_by_one});

TEST(OwnSchedule, IsFoundByItsName) {
  EXPECT_EQ(parse_schedule("one_by_one"), kOneByOne);
  EXPECT_STREQ(kOneByOne->name, "one_by_one");
  EXPECT_EQ(pipeline_schedule_names().back(), "one_by_one");
  EXPECT_THROW(add_pipeline_schedule(*kOneByOne), InternalError);
  EXPECT_THAT(pipeline_schedules_help(), testing::HasSubstr("one_by_one (one micro-batch"));
}

TEST(OwnSchedule, IsPlannedLikeThoseOfTheTree) {
  const auto planned = planned_schedules(4, 8);
  EXPECT_EQ(planned.back(), kOneByOne);
  EXPECT_EQ(std::ranges::count(planned, &kOneFOneB), 1);
  EXPECT_EQ(std::ranges::count(planned, &kNaive), 0) << "1f1b beats it";
  EXPECT_EQ(planned_schedules(1, 8), std::vector<PipelineSchedule>{&kOneFOneB});
  EXPECT_EQ(begun_forwards(kOneByOne, loop_pipe(4, 1, 8), 0), std::vector<int64_t>{1});
}

// A bound of what the planner believes that a rank keeps: no order may stay below it.
TEST(OwnSchedule, BeginsNoFewerForwardsThanItsBound) {
  for (const auto schedule : pipeline_schedules()) {
    for (const int64_t micro_batches : {1, 3, 4, 8}) {
      const int64_t each = schedule->interleaved ? 2 : 1;
      const auto pipe = loop_pipe(4, each, micro_batches);
      const auto orders = schedule->orders(pipe);
      for (int rank = 0; rank < 4; ++rank) {
        std::map<int64_t, int64_t> begun;
        for (const auto& action : orders[static_cast<size_t>(rank)]) {
          if (action.kind != ActionKind::Forward) break;
          ++begun[action.virtual_stage];
        }
        const auto least = begun_forwards(schedule, pipe, rank);
        const auto own = pipe.virtual_stages_of(rank);
        ASSERT_EQ(least.size(), own.size());
        for (size_t i = 0; i < own.size(); ++i) {
          if (schedule->begun == nullptr) continue;
          EXPECT_GE(begun[own[i]], least[i]) << schedule->name << rank << " " << micro_batches;
        }
      }
    }
  }
}

TEST(OwnSchedule, LetsAllStagesButOneWait) {
  for (const int stages : {2, 4}) {
    EXPECT_NEAR(Pipeline(kOneByOne, stages, 8).simulate().idle(), 1 - 1.0 / stages, 1e-9);
  }
}

}  // namespace
}  // namespace convoy::parallel
