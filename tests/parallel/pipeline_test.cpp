#include "convoy/parallel/pipeline/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/parallel/pipeline_testing.h"

namespace convoy::parallel {
namespace {

using testing::HasSubstr;

TEST(PipelineSchedule, EveryProgramIsSound) {
  for (const auto schedule : pipeline_schedules()) {
    for (const int stages : {2, 3, 4, 7}) {
      for (const int64_t micro_batches : {1, 2, 3, 4, 8, 9}) {
        for (const int virtual_stages : {1, 2, 3}) {
          if (!schedule->interleaved && virtual_stages > 1) continue;
          for (const int zero : {0, 1, 2, 3}) {
            SCOPED_TRACE(::testing::Message()
                         << schedule->name << ", " << stages << " stages, " << micro_batches
                         << " micro-batches, " << virtual_stages << " virtual stages, zero "
                         << zero);
            for (const int64_t bucket_bytes : {0, 1 << 20}) {
              const Pipeline pipeline(schedule, stages, micro_batches, virtual_stages, 2,
                                      {.parallelism = {.zero = zero, .bucket_bytes = bucket_bytes},
                                       .num_parts = zero > 0 ? 2 : 1});
              EXPECT_NO_THROW(pipeline.check());
              EXPECT_NO_THROW(pipeline.simulate());
            }
          }
        }
      }
    }
  }
}

// Huang et al., 2019, and Narayanan et al., 2021: (p - 1) / (v m + p - 1) of the time, where
// micro-batches come in whole groups.
TEST(PipelineSchedule, BubbleIsAsLongAsThePapersSay) {
  for (const int stages : {2, 4}) {
    for (const int64_t micro_batches : {4, 8, 16}) {
      const double p = stages, m = static_cast<double>(micro_batches);
      for (const auto schedule : {&kGPipe, &kOneFOneB}) {
        EXPECT_NEAR(Pipeline(schedule, stages, micro_batches).simulate().idle(),
                    (p - 1) / (m + p - 1), 1e-9)
            << schedule->name << " " << p << " " << m;
      }
      for (const int v : {2, 3}) {
        EXPECT_NEAR(Pipeline(&kInterleaved, stages, micro_batches, v).simulate().idle(),
                    (p - 1) / (v * m + p - 1), 1e-9)
            << v << " virtual stages, " << p << " " << m;
      }
    }
  }
}

TEST(PipelineSchedule, OneForwardOneBackwardKeepsNoMoreThanTheStagesLeft) {
  const auto gpipe = Pipeline(&kGPipe, 4, 8).check();
  const auto turns = Pipeline(&kOneFOneB, 4, 8).check();
  for (size_t s = 0; s < 4; ++s) {
    EXPECT_EQ(gpipe[s].blocks, s < 3 ? 8 : 1) << "the last stage takes turns, too";
    EXPECT_EQ(turns[s].blocks, static_cast<int64_t>(4 - s));
  }
}

TEST(PipelineSchedule, ATimelineIsThatOfThePicture) {
  // Two stages, two micro-batches: F0 F1 . . B0 B0 B1 B1 and . F0 B0 B0 F1 B1 B1 .
  const auto timeline = Pipeline(&kOneFOneB, 2, 2).simulate();
  ASSERT_EQ(timeline.ranks[0].size(), 4U);
  EXPECT_EQ(timeline.length, 9);
  const auto& second = timeline.ranks[1];
  EXPECT_EQ(second[0].begin, 1);  // waits for the first stage
  EXPECT_EQ(second[1].instruction.op, Op::Backward);
  EXPECT_EQ(second[1].begin, 2);
  EXPECT_EQ(timeline.ranks[0][2].begin, 4);  // the gradient of micro-batch 0
  EXPECT_EQ(timeline.ranks[0][3].begin, 7);
}

TEST(PipelineSchedule, DearestStageCostsAsLittleAsCanBe) {
  EXPECT_EQ(stages_of(cut_blocks({1, 1, 1, 1}, 2)), (Stages{{0, 1}, {2, 3}}));
  EXPECT_EQ(stages_of(cut_blocks({0, 1, 1, 1, 3}, 2)), (Stages{{0, 1, 2, 3}, {4}}));
  EXPECT_EQ(stages_of(cut_blocks({5, 1, 1, 1, 1, 1}, 3)), (Stages{{0}, {1, 2, 3}, {4, 5}}));
  EXPECT_EQ(stages_of(cut_blocks({1, 1, 1, 1}, 2, 2)), (Stages{{0, 2}, {1, 3}}));
  EXPECT_EQ(stages_of(cut_blocks({1, 1, 1, 1, 1, 1}, 3)), (Stages{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_THROW(stages_of(cut_blocks({1, 1, 1}, 2, 2)), InternalError);
}

TEST(PipelineSchedule, UnknownNameIsRefused) {
  EXPECT_EQ(parse_schedule("interleaved"), &kInterleaved);
  try {
    parse_schedule("pipedream");
    FAIL() << "taken";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("expected one of naive, gpipe, 1f1b, interleaved, zero_bubble, auto"));
  }
}

TEST(PipelineSchedule, SendsAtOnceAndReceivesWhenNeeded) {
  const Pipeline pipeline(&kOneFOneB, 2, 3);
  EXPECT_THAT(to_text(pipeline.programs[0]),
              HasSubstr("forward block 0, micro-batch 1\n"
                        "send block 0, micro-batch 1, to rank 1\n"
                        "receive gradient of block 0, micro-batch 0, from rank 1\n"
                        "backward block 0, micro-batch 0\n"));
}

}  // namespace
}  // namespace convoy::parallel
