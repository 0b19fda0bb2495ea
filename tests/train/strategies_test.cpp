#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/train/testing.h"

// One device that accumulates, DataParallel and DistributedDataParallel are the same computation.
namespace convoy::train {
namespace {

constexpr int64_t kCompared = 100;

models::SessionConfig model_config(double dropout, const std::string& body) {
  auto config = models::small_session({.ids = 120, .width = 24, .heads = 3, .length = 12});
  config.features.push_back({"kind", true, 7});
  config.features.push_back({"price", false, 0});
  config.embedding_dim = 8;
  config.body = body;
  config.dropout = dropout;
  return config;
}

options::TrainingArguments arguments(int64_t per_device, int64_t accumulation) {
  auto out = short_run(per_device, accumulation, kCompared);
  out.learning_rate = 5e-3;
  out.warmup_steps = 5;
  return out;
}

Outcome train(const options::TrainingArguments& arguments, const job::Job& job, double dropout,
              const std::string& body = "gpt2") {
  auto config = model_config(dropout, body);
  return outcome_of([config] { return models::make_session_model(config); },
                    random_sessions(203, 120, 12), arguments, job);
}

Outcome train_ddp(const options::TrainingArguments& arguments, double dropout) {
  return outcome_of_ddp([&](const job::Job& job) { return train(arguments, job, dropout); });
}

void expect_same_bits(const Outcome& a, const Outcome& b) {
  expect_same_bits(a, b, kCompared);
}

TEST(Strategies, DataParallelEqualsAccumulationBitForBit) {
  expect_same_bits(train(arguments(10, 2), one_device(), 0.2),
                   train(arguments(10, 1), replicas(2), 0.2));
}

TEST(Strategies, DistributedDataParallelEqualsAccumulationBitForBit) {
  expect_same_bits(train(arguments(10, 2), one_device(), 0.2), train_ddp(arguments(10, 1), 0.2));
}

TEST(Strategies, MaskedItemTrainingIsTheSameInEveryLayout) {
  const auto expected = train(arguments(10, 2), one_device(), 0.2, "bert");
  expect_same_bits(expected, train(arguments(10, 1), replicas(2), 0.2, "bert"));
  EXPECT_LT(expected.losses.back(), expected.losses.front());
}

TEST(Strategies, SmallBucketsChangeNothing) {
  auto small = arguments(10, 1);
  small.parallel.parallelism.bucket_bytes = 0;  // a collective per unit
  expect_same_bits(train(arguments(10, 1), replicas(2), 0.2), train(small, replicas(2), 0.2));
}

TEST(Strategies, CheckpointingOfGradientsChangesNothing) {
  auto again = arguments(10, 1);
  again.gradient_checkpointing = true;
  expect_same_bits(train(arguments(10, 2), one_device(), 0.2), train(again, replicas(2), 0.2));
}

TEST(Strategies, FourReplicasEqualFourMicroBatchesBitForBit) {
  expect_same_bits(train(arguments(5, 4), one_device(), 0.1),
                   train(arguments(5, 1), replicas(4), 0.1));
}

TEST(Strategies, OddNumbersOfRanksEqualAccumulationBitForBit) {
  for (int ranks : {3, 5, 7}) {
    const auto expected = train(arguments(3, ranks), one_device(), 0.1);
    expect_same_bits(expected, train(arguments(3, 1), replicas(ranks), 0.1));
    expect_same_bits(expected, outcome_of_ranks(ranks, [](const job::Job& job) {
                       return train(arguments(3, 1), job, 0.1);
                     }));
  }
}

TEST(Strategies, AccumulationEqualsTheWholeBatchClosely) {
  auto whole = train(arguments(20, 1), one_device(), 0.2);
  auto halves = train(arguments(10, 2), one_device(), 0.2);
  EXPECT_NEAR(halves.losses[0] / whole.losses[0], 1, 1e-6);
  EXPECT_NEAR(halves.norms[0] / whole.norms[0], 1, 1e-6);
  for (size_t i = 0; i < whole.losses.size(); ++i) {
    EXPECT_NEAR(halves.losses[i] / whole.losses[i], 1, 1e-4) << "step " << i + 1;
  }
}

TEST(Strategies, OneDeviceGathersNothing) {
  auto options = arguments(10, 2);
  options.max_steps = 2;
  Trainer trainer([] { return models::make_session_model(model_config(0, "gpt2")); }, options,
                  random_sessions(203, 120, 12), nullptr, one_device());
  trainer.train();
  const auto use = trainer.strategy().replica().memory();
  EXPECT_EQ(use.gathered, 0);
  EXPECT_GT(use.buffers, 0) << "the second micro-batch's gradients";
}

TEST(Strategies, ItLearns) {
  auto outcome = train(arguments(20, 1), one_device(), 0.1);
  EXPECT_LT(outcome.losses.back(), 0.9 * outcome.losses.front());
}

TEST(Strategies, Fp16StaysNearFp32AndSkipsNothing) {
  for (const char* body : {"gpt2", "bert"}) {
    auto exact = train(arguments(10, 2), one_device(), 0, body);
    auto rounded_arguments = arguments(10, 2);
    rounded_arguments.fp16 = true;
    auto rounded = train(rounded_arguments, one_device(), 0, body);
    ASSERT_EQ(rounded.skipped_steps, 0) << "65536 acts on a sum, not on a mean";
    EXPECT_NE(rounded.losses[1], exact.losses[1]) << "fp16 changed nothing";
    for (size_t i = 0; i < exact.losses.size(); ++i) {
      EXPECT_NEAR(rounded.losses[i] / exact.losses[i], 1, 0.03) << body << ", step " << i + 1;
    }
  }
}

TEST(Strategies, Fp16IsTheSameInEveryLayout) {
  auto alone = arguments(7, 3), parts = arguments(7, 1);
  alone.fp16 = parts.fp16 = true;
  const auto expected = train(alone, one_device(), 0.1);
  expect_same_bits(expected, train(parts, replicas(3), 0.1));
  expect_same_bits(
      expected, outcome_of_ranks(3, [&](const job::Job& job) { return train(parts, job, 0.1); }));
}

TEST(Strategies, Bf16StaysNearFp32) {
  auto exact = train(arguments(20, 1), one_device(), 0);
  auto rounded_arguments = arguments(20, 1);
  rounded_arguments.bf16 = true;
  auto rounded = train(rounded_arguments, one_device(), 0);
  EXPECT_NE(rounded.losses[1], exact.losses[1]) << "bf16 changed nothing";
  for (size_t i = 0; i < exact.losses.size(); ++i) {
    EXPECT_NEAR(rounded.losses[i] / exact.losses[i], 1, 0.03) << "step " << i + 1;
  }
}

}  // namespace
}  // namespace convoy::train
