#include "convoy/launch/supervise/restart_budget.h"

#include <gtest/gtest.h>

namespace convoy::launch {
namespace {

/// Failure of one of two ranks in a step.
FailureReport failure_in(int64_t step, int exit_code = 1) {
  std::vector<RankReport> ranks(2);
  for (int rank = 0; rank < 2; ++rank) {
    auto& report = ranks[static_cast<size_t>(rank)];
    report.rank = rank;
    report.end = rank == 0 ? RankEnd::kStopped : RankEnd::kFailed;
    report.exit_code = exit_code;
    report.activity.step = rank == 0 ? std::max<int64_t>(0, step - 1) : step;
  }
  return {"train", ranks};
}

TEST(RestartBudget, IsUsedUpAtOnePlace) {
  RestartBudget budget(2);
  EXPECT_TRUE(budget.take(failure_in(7)));
  EXPECT_EQ(budget.to_text(), "1 of 2 restarts since it reached step 7");
  EXPECT_TRUE(budget.take(failure_in(7)));
  EXPECT_EQ(budget.to_text(), "2 of 2 restarts since it reached step 7");
  EXPECT_FALSE(budget.take(failure_in(7)));
}

TEST(RestartBudget, IsWholeAgainBeyondTheFurthestStep) {
  RestartBudget budget(1);
  for (const int64_t step : {7, 8, 120}) EXPECT_TRUE(budget.take(failure_in(step))) << step;
  EXPECT_FALSE(budget.take(failure_in(119))) << "it got no further";
}

TEST(RestartBudget, KnowsAStepThatFailsAgain) {
  RestartBudget budget(9);
  for (const auto& [step, again] : std::vector<std::pair<int64_t, bool>>{{7, false},
                                                                         {7, true},
                                                                         {7, true},
                                                                         {9, false},
                                                                         {8, false},
                                                                         {9, false},
                                                                         {9, true},
                                                                         {0, false},
                                                                         {0, true}}) {
    EXPECT_TRUE(budget.take(failure_in(step)));
    EXPECT_EQ(budget.failed_again(), again) << step;
  }
}

TEST(RestartBudget, StepsThatAreMadeAgainAreNoProgress) {
  RestartBudget budget(2);
  EXPECT_TRUE(budget.take(failure_in(100)));
  EXPECT_TRUE(budget.take(failure_in(95)));
  EXPECT_FALSE(budget.take(failure_in(99)));
}

TEST(RestartBudget, CountsAllFailuresOfProgramsWithoutSteps) {
  RestartBudget budget(1);
  EXPECT_TRUE(budget.take(failure_in(0)));
  EXPECT_EQ(budget.to_text(), "1 of 1 restarts");
  EXPECT_FALSE(budget.take(failure_in(0)));
}

TEST(RestartBudget, AMissingProgramEndsTheJob) {
  RestartBudget budget(3);
  EXPECT_FALSE(budget.take(failure_in(0, 127)));
  EXPECT_FALSE(RestartBudget(0).take(failure_in(5)));
}

}  // namespace
}  // namespace convoy::launch
