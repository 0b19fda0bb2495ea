#include "convoy/parallel/pipeline/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"

namespace convoy::parallel {
namespace {

using testing::HasSubstr;

TEST(Compare, HasAllSchedulesOfFourStages) {
  const auto costs = StageNumbers{}.costs(4);
  const auto all =
      compare_schedules(costs, {.parallelism = {.ranks = {.pipeline = 4}, .micro_batches = 8}});
  ASSERT_EQ(all.size(), pipeline_schedules().size());
  for (const auto& each : all) ASSERT_TRUE(each.plan) << each.schedule->name;
  EXPECT_NEAR(all[0].plan->played.idle(), 0.75, 1e-9);           // naive
  EXPECT_NEAR(all[1].plan->played.idle(), 3.0 / 11, 1e-9);       // gpipe
  EXPECT_NEAR(all[2].plan->above_floor(), 33.0 / 27 - 1, 1e-9);  // 1f1b
  EXPECT_NEAR(all[4].plan->above_floor(), 0, 1e-9);              // zero_bubble
  EXPECT_EQ(all[2].plan->played.peak, (std::vector<double>{4, 3, 2, 1}));
  EXPECT_LE(all[5].plan->played.length, all[4].plan->played.length + 1e-9);  // auto
}

TEST(Compare, UnevenStagesAreListsAndMistakesAreNamed) {
  EXPECT_EQ((StageNumbers{.forward = {1, 2}, .backward = {3}, .weight = {1, 2}}.costs(2).backward),
            (std::vector<double>{4, 5}));
  const auto refusal = [](const StageNumbers& numbers) -> std::string {
    try {
      numbers.costs(4);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(refusal({.forward = {1, 2}}),
              HasSubstr("--forward has 2 numbers; expected one, or one for each of 4 stages"));
  EXPECT_THAT(refusal({.weight = {-1}}), HasSubstr("--weight -1 is no cost"));
  EXPECT_THAT(refusal({.kept = {1}, .put_off = {5}}),
              HasSubstr("--put_off 5 is more than --kept 1; expected a part of it"));
}

TEST(Compare, SizesThatTakeMinutesAreRefused) {
  const auto refusal = [](int64_t stages, int64_t virtual_stages, int64_t micro) -> std::string {
    try {
      check_size(stages, virtual_stages, micro);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(1024, 1, 8), "");
  EXPECT_EQ(refusal(64, 8, 8), "");
  EXPECT_THAT(refusal(4, 64, 8),
              HasSubstr("64 virtual stages on each of 4 stages are too many to be compared; "
                        "expected at most 32 each"));
  EXPECT_THAT(refusal(1024, INT64_MAX, 8), HasSubstr("expected at most 2 each"));
  EXPECT_THAT(refusal(1025, 1, 8), HasSubstr("too long to be compared"));
  EXPECT_THAT(refusal(4, 1, 1'000'000), HasSubstr("try fewer micro-batches"));
}

TEST(Compare, TellsWhyASchedulesPlanIsRefused) {
  const auto all = compare_schedules(
      StageNumbers{}.costs(2),
      {.parallelism = {.ranks = {.pipeline = 2},
                       .micro_batches = 2,
                       .pipeline = {.virtual_stages = 3, .placement = Placement::V}},
       .memory = 0.5});
  EXPECT_TRUE(all[2].plan);
  EXPECT_THAT(all[3].refusal, HasSubstr("takes two virtual stages a rank; got 3"));
  EXPECT_THAT(all[5].refusal, HasSubstr("fits no schedule"));
}

}  // namespace
}  // namespace convoy::parallel
