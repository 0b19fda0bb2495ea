#include "convoy/planner/estimate/estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/train/zero_testing.h"

namespace convoy::train {
namespace {

using testing::HasSubstr;
using zero_testing::zero_arguments;

// What the library tells beforehand is what ranks keep, to the byte.
TEST(Estimate, IsWhatEachRankKeeps) {
  for (const int64_t stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    const auto options = zero_arguments(stage, 2);
    const auto plan = convoy::estimate(small_gpt2, options, *texts(), 2);
    ASSERT_EQ(plan.stages.size(), 1U);
    const auto& told = plan.stages[0].memory;
    run_ranks(2, [&](const job::Job& job) {
      Trainer trainer(small_gpt2, options, texts(), nullptr, job);
      const auto kept = trainer.strategy().replica().memory();
      EXPECT_EQ(told.parameters, kept.parameters);
      EXPECT_EQ(told.gradients, kept.gradients);
      EXPECT_EQ(told.optimizer, kept.optimizer);
    });
    EXPECT_GT(told.activations, 0);
    EXPECT_GT(plan.timeline.length, 0);
  }
}

TEST(Estimate, TellsWhatItDoesNotCount) {
  const auto refusal = [](const options::TrainingArguments& options, int ranks) -> std::string {
    try {
      planner::estimate(small_gpt2, options, *texts(), ranks);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "taken";
  };
  auto options = zero_arguments(0);
  EXPECT_EQ(refusal(options, 1), "taken");
  options.parallel.strategy = "dp";
  EXPECT_THAT(refusal(options, 1), HasSubstr("try without --strategy and --replicas"));
  options = zero_arguments(0);
  options.parallel.parallelism.offload.optimizer = parallel::Place::Disk;
  EXPECT_THAT(refusal(options, 1), HasSubstr("needs a folder on a disk"));
  options.parallel.parallelism.offload.folder = "elsewhere";
  const auto offloaded = convoy::estimate(small_gpt2, options, *texts(), 1).stages.at(0).memory;
  EXPECT_GT(offloaded.offloaded, 0);
  EXPECT_EQ(offloaded.optimizer, 0);
  options = zero_arguments(0);
  options.parallel.parallelism.ranks.pipeline = 2;
  EXPECT_THAT(refusal(options, 3), HasSubstr("--ranks 3 does not divide into 2 stages"));
}

}  // namespace
}  // namespace convoy::train
