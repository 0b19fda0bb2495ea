#include <gmock/gmock.h>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
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
Outcome on_ranks(int ranks, const parallel::ModelFactory& factory, const TrainingArguments& options,
                 const std::shared_ptr<Dataset>& data = texts()) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](const Job& job) {
    outcomes[static_cast<size_t>(job.environment.rank)] = outcome_of(factory, data, options, job);
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

/// Dropout and clipping are on.
TEST_P(Zero, FiftyStepsEndInTheSameBitsOverEveryEngine) {
  const int ranks = GetParam();
  constexpr int64_t kMany = 50;
  auto options = arguments(0);
  options.max_steps = kMany;
  const auto ddp = on_ranks(ranks, small_gpt2, options);
  for (const int64_t stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    options.parallel.zero = stage;
    expect_same_bits(ddp, on_ranks(ranks, small_gpt2, options), kMany);
    if (ranks > 2 && stage < 3) continue;
    std::vector<Outcome> gloo(static_cast<size_t>(ranks));
    comm::run_gloo_ranks(ranks, [&](const comm::Group& group) {
      gloo[static_cast<size_t>(group.rank())] =
          outcome_of(small_gpt2, texts(), options, rank_of(group));
    });
    if (ranks == 2) expect_same_bits(ddp, gloo[0], kMany);
    ASSERT_EQ(gloo[0].losses.size(), ddp.losses.size());
    for (size_t i = 0; i < ddp.losses.size(); ++i) {
      EXPECT_NEAR(gloo[0].losses[i] / ddp.losses[i], 1, 1e-6) << i;  // adds in another order
    }
  }
  if (ranks < 4) {
    expect_same_bits(ddp, outcome_of(small_gpt2, texts(), options, replicas(ranks)), kMany);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Zero, testing::Values(2, 3, 4));

TEST(Zero, AnEncoderAndADecoderAreOneDeviceBitForBit) {
  const auto alone = outcome_of(small_t5, plain_texts(), arguments(0, 2), one_device());
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  for (const int64_t stage : {0, 1, 2, 3}) {
    for (const bool recompute : {false, true}) {
      SCOPED_TRACE(fmt::format("stage {}, recompute {}", stage, recompute));
      auto options = arguments(stage);
      options.gradient_checkpointing = recompute;
      expect_same_bits(alone, on_ranks(2, small_t5, options, plain_texts()), kSteps);
    }
  }
}

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

/// Four ranks, two of which keep a copy together.
Outcome on_two_copies(const TrainingArguments& options) {
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
    outcomes[rank] = outcome_of(small_gpt2, texts(), options, job);
  });
  for (const auto& other : outcomes) EXPECT_TRUE(at::equal(outcomes[0].weights, other.weights));
  return outcomes[0];
}

TEST(Zero, SeveralCopiesOfTheStateAgreeToTheLastDigits) {
  // Sums of pairs are added to each other.
  const auto ddp = on_ranks(4, small_gpt2, arguments(0));
  for (const int64_t stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    const auto outcome = on_two_copies(arguments(stage));
    ASSERT_EQ(outcome.losses.size(), ddp.losses.size());
    for (size_t i = 0; i < ddp.losses.size(); ++i) {
      EXPECT_NEAR(outcome.losses[i] / ddp.losses[i], 1, i == 0 ? 1e-6 : 1e-4) << i;
      EXPECT_NEAR(outcome.norms[i] / ddp.norms[i], 1, i == 0 ? 1e-6 : 1e-4) << i;
    }
  }
}

class Offload : public testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }

  TrainingArguments on_disk(TrainingArguments options) const {
    options.parallel.offload_dir = folder_.string();
    options.parallel.offload_optimizer = "disk";
    if (options.parallel.zero >= 2) options.parallel.offload_gradients = "disk";
    if (options.parallel.zero >= 3) options.parallel.offload_parameters = "disk";
    return options;
  }

  std::string refusal(const TrainingArguments& options, const Job& job = one_device()) const {
    try {
      Trainer trainer(small_gpt2, options, texts(), nullptr, job);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  const std::filesystem::path folder_ = unique_folder("offload-test");
};

TEST_F(Offload, ChangesNoBit) {
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    for (const int64_t stage : {0, 2, 3}) {
      const int64_t accumulation = stage == 2 ? 3 : 1;
      SCOPED_TRACE(fmt::format("stage {} in {}", stage, precision));
      auto options = arguments(stage, accumulation);
      options.bf16 = precision == std::string("bf16");
      options.fp16 = precision == std::string("fp16");
      expect_same_bits(on_ranks(2, small_gpt2, options), on_ranks(2, small_gpt2, on_disk(options)),
                       kSteps);
      if (precision == std::string("bf16")) continue;
      const auto alone = outcome_of(small_gpt2, texts(), options, one_device());
      expect_same_bits(alone, outcome_of(small_gpt2, texts(), on_disk(options), one_device()),
                       kSteps);
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Offload, EachKindAloneChangesNoBitEither) {
  const auto options = arguments(3, 2);
  const auto expected = on_ranks(2, small_llama, options);
  for (const bool each : {true, false}) {
    auto one = options;
    one.parallel.offload_dir = folder_.string();
    one.parallel.bucket_cap_mb = each ? 0 : 25;
    auto gradients = one;
    gradients.parallel.offload_gradients = "disk";
    expect_same_bits(expected, on_ranks(2, small_llama, gradients), kSteps);
    auto parameters = one;
    parameters.parallel.offload_parameters = "disk";
    parameters.parallel.prefetch = each ? 3 : 0;
    expect_same_bits(expected, on_ranks(2, small_llama, parameters), kSteps);
  }
}

TEST_F(Offload, WorksWithSeveralCopiesReplicasAndGloo) {
  for (const int64_t stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    const auto expected = outcome_of(small_gpt2, texts(), arguments(stage), replicas(2));
    expect_same_bits(
        expected, outcome_of(small_gpt2, texts(), on_disk(arguments(stage)), replicas(2)), kSteps);
    expect_same_bits(expected, outcome_of_ddp([&](const Job& job) {
                       return outcome_of(small_gpt2, texts(), on_disk(arguments(stage)), job);
                     }),
                     kSteps);
    expect_same_bits(on_two_copies(arguments(stage, 2)),
                     on_two_copies(on_disk(arguments(stage, 2))), kSteps);
  }
}

TEST_F(Offload, GoesOnFromItsCheckpointAndIntoOthers) {
  for (const bool bf16 : {false, true}) {
    auto options = arguments(0);
    options.bf16 = bf16;
    const auto straight = on_ranks(2, small_gpt2, options);
    options.save_strategy = "steps";
    options.save_steps = 4;
    for (const int64_t stage : {bf16 ? 0 : 3}) {
      for (const bool disk_first : {true, false}) {
        SCOPED_TRACE(fmt::format("stage {}{}, {}", stage, bf16 ? " in bf16" : "",
                                 disk_first ? "saved from the disk" : "read to the disk"));
        auto first = options;
        first.output.dir = (folder_ / "run").string();
        first.output.overwrite = true;
        first.parallel.zero = stage;
        auto second = first;
        second.resume_from_checkpoint = (folder_ / "run/checkpoint-4").string();
        expect_same_bits(straight, on_ranks(2, small_gpt2, disk_first ? on_disk(first) : first),
                         kSteps);
        const auto resumed = on_ranks(2, small_gpt2, disk_first ? second : on_disk(second));
        EXPECT_TRUE(at::equal(straight.weights, resumed.weights));
      }
    }
  }
}

TEST_F(Offload, RefusesWhatCannotBe) {
  using testing::HasSubstr;
  auto options = arguments(0);
  options.parallel.offload_optimizer = "cpu";
  EXPECT_THAT(refusal(options), HasSubstr("the device is the CPU, whose memory that is; try "
                                          "offload_optimizer = disk"));
  options.parallel.offload_optimizer = "disk";
  EXPECT_THAT(refusal(options), HasSubstr("offload_optimizer = disk needs a folder"));
  options.parallel.offload_dir = (folder_ / "none").string();
  EXPECT_THAT(refusal(options), HasSubstr("/none is no folder on "));
  EXPECT_THAT(refusal(options), HasSubstr(", seen from rank 0"));
  options.parallel.offload_dir = "/proc";
  EXPECT_THAT(refusal(options), HasSubstr("offload_optimizer = disk, rank 0: cannot "));
  EXPECT_THAT(refusal(options), HasSubstr(" in /proc: "));
  options.parallel.offload_dir = folder_.string();
  EXPECT_EQ(refusal(options), "none");
  EXPECT_THAT(refusal(options, replicas(2)), HasSubstr("with DataParallel"));
  options.parallel.offload_gradients = "disk";
  EXPECT_THAT(refusal(options), HasSubstr("offload_gradients = disk with zero = 0: backward needs "
                                          "whole gradients there; try --zero 2"));
  options.parallel.offload_gradients = "none";
  options.parallel.offload_parameters = "disk";
  EXPECT_THAT(refusal(options), HasSubstr("try --zero 3"));
}

TEST_F(Offload, KeepsInMemoryWhatIsNotOnTheDisk) {
  run_ranks(2, [&](const Job& job) {
    auto options = on_disk(arguments(3));
    options.bf16 = true;
    Trainer trainer(small_gpt2, options, texts(), nullptr, job);
    auto& replica = trainer.strategy().replica();
    const auto use = replica.memory();
    EXPECT_EQ(use.parameters + use.gradients + use.optimizer, 0);
    EXPECT_GE(use.offloaded, 18 * replica.arena().layout().num_elements() / 2);
    trainer.train();
    const auto after = replica.memory();
    EXPECT_EQ(after.parameters + after.gradients + after.optimizer, 0);
    EXPECT_GT(after.buffers, 0);
    EXPECT_GE(after.gathered, replica.most_gathered());
  });
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
