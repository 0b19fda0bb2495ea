#include "convoy/schedule/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "convoy/base/error.h"
#include "convoy/schedule/simulate.h"

namespace convoy::schedule {
namespace {

using testing::HasSubstr;

constexpr PipelineSchedule kAll[] = {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB,
                                     PipelineSchedule::Interleaved};

/// A pipeline of blocks that are all alike, a unit and a bucket per block.
struct Pipeline {
  Pipeline(PipelineSchedule schedule, int num_stages, int64_t num_micro_batches, int rounds = 1,
           int blocks_of_row = 1, LayoutOptions layout = {})
      : options{.num_micro_batches = num_micro_batches} {
    const int num_blocks = num_stages * rounds * blocks_of_row;
    ModelTable table;
    std::vector<std::vector<ParamShape>> params;
    for (int64_t block = 0; block < num_blocks; ++block) {
      table.units_of_block.push_back({block});
      params.push_back({{{64}}});
    }
    costs.forward.assign(static_cast<size_t>(num_blocks), 1);
    costs.backward.assign(static_cast<size_t>(num_blocks), 2);
    layout.stages = cut_into_stages(costs.forward, num_stages, rounds);
    const Layout first(table, params, layout);
    for (int s = 0; s < num_stages; ++s) layouts.push_back(first.of_stage(s));
    programs = pipeline_programs(schedule, layouts, options);
  }

  std::vector<RankProgram> ranks() const {
    std::vector<int> stages(layouts.size());
    std::iota(stages.begin(), stages.end(), 0);
    std::vector<RankProgram> out;
    for (size_t s = 0; s < layouts.size(); ++s) out.push_back({programs[s], layouts[s], stages});
    return out;
  }
  std::vector<Alive> check() const { return schedule::check(ranks(), options); }
  Timeline simulate() const { return schedule::simulate(ranks(), costs); }

  StepOptions options;
  Costs costs;
  std::vector<Layout> layouts;
  std::vector<Program> programs;
};

TEST(PipelineSchedule, EveryProgramIsSound) {
  for (const auto schedule : kAll) {
    for (const int stages : {2, 3, 4, 7}) {
      for (const int64_t micro_batches : {1, 2, 3, 4, 8, 9}) {
        for (const int rounds : {1, 2, 3}) {
          const bool interleaved = schedule == PipelineSchedule::Interleaved;
          if (interleaved ? micro_batches % stages != 0 : rounds > 1) continue;
          for (const int zero : {0, 1, 2, 3}) {
            SCOPED_TRACE(::testing::Message()
                         << name_of(schedule) << ", " << stages << " stages, " << micro_batches
                         << " micro-batches, " << rounds << " rounds, zero " << zero);
            for (const int64_t bucket_bytes : {0, 1 << 20}) {
              const Pipeline pipeline(
                  schedule, stages, micro_batches, rounds, 2,
                  {.stage = zero, .num_parts = zero > 0 ? 2 : 1, .bucket_bytes = bucket_bytes});
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
TEST(PipelineSchedule, StandsStillAsLongAsThePapersSay) {
  for (const int stages : {2, 4}) {
    for (const int64_t micro_batches : {4, 8, 16}) {
      const double p = stages, m = static_cast<double>(micro_batches);
      for (const auto schedule : {PipelineSchedule::GPipe, PipelineSchedule::OneFOneB}) {
        EXPECT_NEAR(Pipeline(schedule, stages, micro_batches).simulate().idle(),
                    (p - 1) / (m + p - 1), 1e-9)
            << name_of(schedule) << " " << p << " " << m;
      }
      for (const int v : {2, 3}) {
        EXPECT_NEAR(
            Pipeline(PipelineSchedule::Interleaved, stages, micro_batches, v).simulate().idle(),
            (p - 1) / (v * m + p - 1), 1e-9)
            << v << " rows, " << p << " " << m;
      }
    }
  }
}

TEST(PipelineSchedule, OneForwardOneBackwardKeepsNoMoreThanTheStagesLeft) {
  const auto gpipe = Pipeline(PipelineSchedule::GPipe, 4, 8).check();
  const auto turns = Pipeline(PipelineSchedule::OneFOneB, 4, 8).check();
  for (size_t s = 0; s < 4; ++s) {
    EXPECT_EQ(gpipe[s].blocks, s < 3 ? 8 : 1) << "the last stage takes turns, too";
    EXPECT_EQ(turns[s].blocks, static_cast<int64_t>(4 - s));
  }
}

TEST(PipelineSchedule, ATimelineIsThatOfThePicture) {
  // Two stages, two micro-batches: F0 F1 . . B0 B0 B1 B1 and . F0 B0 B0 F1 B1 B1 .
  const auto timeline = Pipeline(PipelineSchedule::OneFOneB, 2, 2).simulate();
  ASSERT_EQ(timeline.ranks[0].size(), 4U);
  EXPECT_EQ(timeline.length, 9);
  const auto& second = timeline.ranks[1];
  EXPECT_EQ(second[0].begin, 1);  // waits for the first stage
  EXPECT_EQ(second[1].instruction.op, Op::Backward);
  EXPECT_EQ(second[1].begin, 2);
  EXPECT_EQ(timeline.ranks[0][2].begin, 4);  // the gradient of micro-batch 0
  EXPECT_EQ(timeline.ranks[0][3].begin, 7);
}

TEST(PipelineSchedule, TheDearestStageCostsAsLittleAsCanBe) {
  EXPECT_EQ(cut_into_stages({1, 1, 1, 1}, 2), (Stages{{0, 1}, {2, 3}}));
  EXPECT_EQ(cut_into_stages({0, 1, 1, 1, 3}, 2), (Stages{{0, 1, 2, 3}, {4}}));
  EXPECT_EQ(cut_into_stages({5, 1, 1, 1, 1, 1}, 3), (Stages{{0}, {1, 2, 3}, {4, 5}}));
  EXPECT_EQ(cut_into_stages({1, 1, 1, 1}, 2, 2), (Stages{{0, 2}, {1, 3}}));
  EXPECT_EQ(cut_into_stages({1, 1, 1, 1, 1, 1}, 3), (Stages{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_THROW(cut_into_stages({1, 1, 1}, 2, 2), InternalError);
}

TEST(PipelineSchedule, InterleavedStagesNeedWholeGroups) {
  try {
    Pipeline(PipelineSchedule::Interleaved, 4, 9, 2);
    FAIL() << "taken";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("gradient_accumulation_steps = 9 does not divide by 4; try "
                                        "8 or 12"));
  }
}

TEST(PipelineSchedule, AnotherNameIsRefused) {
  EXPECT_EQ(pipeline_schedule("interleaved"), PipelineSchedule::Interleaved);
  try {
    pipeline_schedule("pipedream");
    FAIL() << "taken";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("expected gpipe, 1f1b or interleaved"));
  }
}

TEST(PipelineSchedule, WhatCrossesIsSentAtOnceAndReceivedWhenNeeded) {
  const Pipeline pipeline(PipelineSchedule::OneFOneB, 2, 3);
  EXPECT_THAT(to_text(pipeline.programs[0]),
              HasSubstr("forward block 0, micro-batch 1\n"
                        "send block 0, micro-batch 1, to rank 1\n"
                        "receive gradient of block 0, micro-batch 0, from rank 1\n"
                        "backward block 0, micro-batch 0\n"));
}

}  // namespace
}  // namespace convoy::schedule
