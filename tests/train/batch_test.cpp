#include "convoy/options/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/train/testing.h"

namespace convoy::train {
namespace {

using testing::HasSubstr;

options::TrainingArguments of(int64_t batch, int64_t per_device) {
  options::TrainingArguments out;
  out.global_batch_size = batch;
  out.per_device_train_batch_size = per_device;
  return out;
}

std::string refusal(options::TrainingArguments arguments, int64_t ranks) {
  try {
    options::hold_batch(arguments, ranks);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "taken";
}

TEST(GlobalBatch, IsHeldOnAnyNumberOfRanks) {
  for (const int64_t ranks : {1, 2, 3, 4, 6, 12}) {
    auto arguments = of(24, 2);
    options::hold_batch(arguments, ranks);
    EXPECT_EQ(arguments.gradient_accumulation_steps * 2 * ranks, 24);
    EXPECT_EQ(options::step_rows(arguments, ranks), 24);
    options::hold_batch(arguments, ranks);  // it is done
    EXPECT_EQ(arguments.gradient_accumulation_steps * 2 * ranks, 24);
  }
  EXPECT_EQ(options::step_rows(of(24, 5), 7), 24);
}

TEST(GlobalBatch, SaysWhatDivides) {
  EXPECT_THAT(refusal(of(24, 5), 2),
              HasSubstr("micro-batches of 5 rows on 2 ranks that share out the data; try "
                        "--per_device_train_batch_size 4"));
  EXPECT_THAT(refusal(of(24, 2), 5), HasSubstr("try --global_batch_size 20 or 30"));
  EXPECT_THAT(refusal(of(3, 2), 2), HasSubstr("try --global_batch_size 4"));
  EXPECT_THAT(refusal(of(7, 8), 1), HasSubstr("on one rank; try --per_device_train_batch_size 7"));
  auto both = of(24, 2);
  both.gradient_accumulation_steps = 3;
  EXPECT_THAT(refusal(both, 4), HasSubstr("try one of them"));
}

TEST(GlobalBatch, GivesTheSameTrainingOnAnyNumberOfRanks) {
  auto arguments = short_run(4, 1, 3);
  arguments.global_batch_size = 16;
  const auto data = random_sessions(60, 50, 8);
  const auto train = [&](const job::Job& job) {
    return outcome_of(tiny_model(), data, arguments, job);
  };
  const auto one = train(one_device());
  // With a micro-batch on each rank sums are made in the same order.
  expect_same_bits(one, outcome_of_ranks(4, train), 3);
  expect_same_bits(one, train(replicas(4)), 3);
  const auto two = outcome_of_ranks(2, train);
  EXPECT_TRUE(at::allclose(one.weights, two.weights, 1e-4, 1e-6));
  for (size_t n = 0; n < 3; ++n) EXPECT_NEAR(one.losses[n], two.losses[n], 1e-5);
}

}  // namespace
}  // namespace convoy::train
