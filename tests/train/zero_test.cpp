#include <gtest/gtest.h>

#include "tests/train/causal_testing.h"

// What a rank keeps a slice of changes no bit: ZeRO's stages are DistributedDataParallel.
namespace convoy::train {
namespace {

constexpr int64_t kSteps = 10;

TrainingArguments arguments(int64_t zero, int64_t accumulation = 1) {
  TrainingArguments out;
  out.per_device_train_batch_size = 2;
  out.gradient_accumulation_steps = accumulation;
  out.max_steps = kSteps;
  out.learning_rate = 3e-3;
  out.weight_decay = 0.01;
  out.max_grad_norm = 0.5;
  out.logging_steps = 1;
  out.save_strategy = "no";
  out.output.quiet = true;
  out.parallel.zero = zero;
  out.parallel.bucket_cap_mb = 0;  // a bucket per unit
  return out;
}

/// As ranks over shared memory, which add in rank order.
Outcome on_ranks(int ranks, const parallel::ModelFactory& factory,
                 const TrainingArguments& options) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](const Job& job) {
    outcomes[static_cast<size_t>(job.environment.rank)] =
        outcome_of(factory, texts(), options, job);
  });
  for (const auto& other : outcomes) EXPECT_TRUE(at::equal(outcomes[0].weights, other.weights));
  return outcomes[0];
}

class Zero : public testing::TestWithParam<int> {};

TEST_P(Zero, IsDistributedDataParallelBitForBit) {
  const int ranks = GetParam();
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    auto expected = arguments(0);
    expected.bf16 = precision == std::string("bf16");
    expected.fp16 = precision == std::string("fp16");
    const auto ddp = on_ranks(ranks, small_gpt2, expected);
    EXPECT_LT(ddp.losses.back(), ddp.losses.front());
    for (const int64_t stage : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("stage {} on {} ranks in {}", stage, ranks, precision));
      auto options = expected;
      options.parallel.zero = stage;
      expect_same_bits(ddp, on_ranks(ranks, small_gpt2, options), kSteps);
    }
  }
}

TEST_P(Zero, ReducingEachMicroBatchIsOneDeviceThatAccumulatesThemAll) {
  const int ranks = GetParam();
  const auto alone = outcome_of(small_llama, texts(), arguments(0, 2 * ranks), one_device());
  for (const int64_t stage : {2, 3}) {
    SCOPED_TRACE(stage);
    expect_same_bits(alone, on_ranks(ranks, small_llama, arguments(stage, 2)), kSteps);
  }
}

TEST_P(Zero, ReducingLastIsDistributedDataParallel) {
  const int ranks = GetParam();
  const auto ddp = on_ranks(ranks, small_llama, arguments(0, 3));
  for (const int64_t stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    auto options = arguments(stage, 3);
    if (stage > 1) options.parallel.zero_reduce = "last";
    expect_same_bits(ddp, on_ranks(ranks, small_llama, options), kSteps);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Zero, testing::Values(2, 3, 4));

TEST(Zero, GathersAndRecomputationChangeNoBit) {
  const auto ddp = on_ranks(2, small_gpt2, arguments(0));
  for (const int64_t prefetch : {0, 1, 5}) {
    for (const bool reshard : {true, false}) {
      for (const bool recompute : {true, false}) {
        SCOPED_TRACE(
            fmt::format("prefetch {}, reshard {}, recompute {}", prefetch, reshard, recompute));
        auto options = arguments(3);
        options.parallel.prefetch = prefetch;
        options.parallel.reshard_after_forward = reshard;
        options.gradient_checkpointing = recompute;
        options.parallel.bucket_cap_mb = prefetch == 5 ? 25 : 0;
        expect_same_bits(ddp, on_ranks(2, small_gpt2, options), kSteps);
      }
    }
  }
}

TEST(Zero, RanksOverGlooAndReplicasInThreadsAgreeToo) {
  const auto alone = outcome_of(small_gpt2, texts(), arguments(0, 2), one_device());
  for (const int64_t stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    expect_same_bits(alone, outcome_of(small_gpt2, texts(), arguments(stage), replicas(2)), kSteps);
    expect_same_bits(alone, outcome_of_ddp([&](const Job& job) {
                       return outcome_of(small_gpt2, texts(), arguments(stage), job);
                     }),
                     kSteps);
  }
}

TEST(Zero, SeveralCopiesOfTheStateAgreeToTheLastDigits) {
  // Four ranks, two of which keep a copy together: sums of pairs are added to each other.
  const auto ddp = on_ranks(4, small_gpt2, arguments(0));
  for (const int64_t stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    auto shards = std::array{comm::make_thread_groups(2, std::chrono::minutes(2)),
                             comm::make_thread_groups(2, std::chrono::minutes(2))};
    auto copies = std::array{comm::make_thread_groups(2, std::chrono::minutes(2)),
                             comm::make_thread_groups(2, std::chrono::minutes(2))};
    std::vector<Outcome> outcomes(4);
    run_ranks(4, [&](Job job) {
      const auto rank = static_cast<size_t>(job.environment.rank);
      job.shard_ranks = 2;
      job.shard = shards[rank / 2][rank % 2];
      job.replicas = copies[rank % 2][rank / 2];
      outcomes[rank] = outcome_of(small_gpt2, texts(), arguments(stage, 1), job);
    });
    for (const auto& other : outcomes) EXPECT_TRUE(at::equal(outcomes[0].weights, other.weights));
    ASSERT_EQ(outcomes[0].losses.size(), ddp.losses.size());
    for (size_t i = 0; i < ddp.losses.size(); ++i) {
      EXPECT_NEAR(outcomes[0].losses[i] / ddp.losses[i], 1, i == 0 ? 1e-6 : 1e-4) << i;
      EXPECT_NEAR(outcomes[0].norms[i] / ddp.norms[i], 1, i == 0 ? 1e-6 : 1e-4) << i;
    }
  }
}

TEST(Zero, EvaluationTakesPartWithoutRows) {
  // 61 rows in batches of 8 on 3 ranks: the last step leaves ranks without any.
  std::vector<double> losses;
  for (const int64_t stage : {0, 1, 2, 3}) {
    run_ranks(3, [&](const Job& job) {
      at::set_num_threads(1);
      auto options = arguments(stage);
      options.max_steps = 3;
      options.eval_strategy = "steps";
      options.eval_steps = 1;
      options.per_device_eval_batch_size = 15;
      Trainer trainer(small_gpt2, options, texts(), texts(), job);
      trainer.train();
      const auto metrics = trainer.evaluate();
      if (job.is_main()) losses.push_back(metrics.at("eval_loss"));
    });
  }
  for (const double loss : losses) EXPECT_EQ(loss, losses[0]);
}

TEST(Zero, EachRankKeepsWhatItsStageSays) {
  for (const bool bf16 : {false, true}) {
    for (const int64_t stage : {0, 1, 2, 3}) {
      run_ranks(4, [&](const Job& job) {
        auto options = arguments(stage);
        options.bf16 = bf16;
        Trainer trainer(small_gpt2, options, texts(), nullptr, job);
        auto& replica = trainer.strategy().replica();
        const auto n = static_cast<double>(replica.arena().layout().num_elements());
        const double expected =
            bf16 ? std::array{18.0, 6 + 12. / 4, 2 + 16. / 4, 18. / 4}[static_cast<size_t>(stage)]
                 : std::array{16.0, 8 + 8. / 4, 4 + 12. / 4, 16. / 4}[static_cast<size_t>(stage)];
        const auto use = replica.memory();
        EXPECT_EQ(static_cast<double>(use.parameters + use.gradients + use.optimizer) / n, expected)
            << "stage " << stage << (bf16 ? " in bf16" : "");
      });
    }
  }
}

}  // namespace
}  // namespace convoy::train
