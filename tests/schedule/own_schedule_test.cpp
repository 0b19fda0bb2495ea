#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/schedule/pipeline/pipeline.h"
#include "tests/schedule/pipeline_testing.h"

// One of one's own is an order of actions and a line: PipelineSchedule.EveryProgramIsSound proves
// it like the others.
namespace convoy::schedule {
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

const auto kOneByOne = add_pipeline_schedule("one_by_one", false, one_by_one);

TEST(OwnSchedule, IsFoundByItsName) {
  EXPECT_EQ(parse_schedule("one_by_one"), kOneByOne);
  EXPECT_STREQ(name_of(kOneByOne), "one_by_one");
  EXPECT_EQ(pipeline_schedule_names().back(), "one_by_one");
  EXPECT_THROW(add_pipeline_schedule("one_by_one", false, one_by_one), InternalError);
}

TEST(OwnSchedule, LetsAllStagesButOneWait) {
  for (const int stages : {2, 4}) {
    EXPECT_NEAR(Pipeline(kOneByOne, stages, 8).simulate().idle(), 1 - 1.0 / stages, 1e-9);
  }
}

}  // namespace
}  // namespace convoy::schedule
