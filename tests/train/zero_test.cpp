#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>

#include "convoy/base/files.h"
#include "tests/train/zero_testing.h"

// What a rank keeps a shard of changes no bit: ZeRO's stages are DistributedDataParallel.
namespace convoy::train {
namespace {

using namespace zero_testing;

class Zero : public testing::TestWithParam<int> {};

TEST_P(Zero, IsDistributedDataParallelBitForBit) {
  const int ranks = GetParam();
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    auto options = in_precision(zero_arguments(0), precision);
    const auto ddp = on_ranks(ranks, small_gpt2, options);
    EXPECT_LT(ddp.losses.back(), ddp.losses.front());
    for (const int64_t stage : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("stage {} on {} ranks in {}", stage, ranks, precision));
      options.parallel.parallelism.zero = stage;
      expect_same_bits(ddp, on_ranks(ranks, small_gpt2, options), kZeroSteps);
    }
  }
}

TEST_P(Zero, ReducingEachMicroBatchIsOneDeviceThatAccumulatesThemAll) {
  const int ranks = GetParam();
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    const auto alone = outcome_of(
        small_llama, texts(), in_precision(zero_arguments(0, 2 * ranks), precision), one_device());
    for (const int64_t stage : {2, 3}) {
      SCOPED_TRACE(fmt::format("stage {} in {}", stage, precision));
      expect_same_bits(
          alone, on_ranks(ranks, small_llama, in_precision(zero_arguments(stage, 2), precision)),
          kZeroSteps);
    }
  }
}

TEST_P(Zero, ReducingLastIsDistributedDataParallel) {
  const int ranks = GetParam();
  const auto ddp = on_ranks(ranks, small_llama, zero_arguments(0, 3));
  for (const int64_t stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    auto options = zero_arguments(stage, 3);
    if (stage > 1) options.parallel.parallelism.reduce_each = false;
    expect_same_bits(ddp, on_ranks(ranks, small_llama, options), kZeroSteps);
  }
}

/// Dropout and clipping are on.
TEST_P(Zero, FiftyStepsEndInTheSameBitsOverEveryEngine) {
  const int ranks = GetParam();
  constexpr int64_t kMany = 50;
  auto options = zero_arguments(0);
  options.max_steps = kMany;
  const auto ddp = on_ranks(ranks, small_gpt2, options);
  for (const int64_t stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    options.parallel.parallelism.zero = stage;
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
  const auto alone = outcome_of(small_t5, plain_texts(), zero_arguments(0, 2), one_device());
  const auto& losses = alone.losses;  // each of other texts: by halves
  const auto middle = losses.begin() + static_cast<std::ptrdiff_t>(losses.size() / 2);
  EXPECT_LT(std::accumulate(middle, losses.end(), 0.0),
            std::accumulate(losses.begin(), middle, 0.0));
  for (const int64_t stage : {0, 1, 2, 3}) {
    for (const bool recompute : {false, true}) {
      SCOPED_TRACE(fmt::format("stage {}, recompute {}", stage, recompute));
      auto options = zero_arguments(stage);
      options.gradient_checkpointing = recompute;
      expect_same_bits(alone, on_ranks(2, small_t5, options, plain_texts()), kZeroSteps);
    }
  }
}

TEST(Zero, GathersAndRecomputationChangeNoBit) {
  const auto ddp = on_ranks(2, small_gpt2, zero_arguments(0));
  for (const int64_t prefetch : {0, 1, 5}) {
    for (const bool reshard : {true, false}) {
      for (const bool recompute : {true, false}) {
        SCOPED_TRACE(
            fmt::format("prefetch {}, reshard {}, recompute {}", prefetch, reshard, recompute));
        auto options = zero_arguments(3);
        options.parallel.parallelism.gathers.prefetch = prefetch;
        options.parallel.parallelism.gathers.reshard_after_forward = reshard;
        options.gradient_checkpointing = recompute;
        options.parallel.parallelism.bucket_bytes = prefetch == 5 ? 25 << 20 : 0;
        expect_same_bits(ddp, on_ranks(2, small_gpt2, options), kZeroSteps);
      }
    }
  }
}

TEST(Zero, EightRanksAreDistributedDataParallelToo) {
  auto options = zero_arguments(0);
  options.per_device_train_batch_size = 1;
  options.max_steps = 5;
  const auto ddp = on_ranks(8, small_gpt2, options);
  for (const int64_t stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    options.parallel.parallelism.zero = stage;
    expect_same_bits(ddp, on_ranks(8, small_gpt2, options), 5);
  }
}

/// Its table of ids takes more than a megabyte, all else less.
nn::BlockList wide_gpt2() {
  return models::small_gpt2({.ids = 12000, .width = 24, .heads = 3, .length = kLength})
      .make_blocks();
}

TEST(Zero, SmallBucketsThatStayWholeChangeNoBitAndTakeTheirMemory) {
  const auto folder = unique_folder("keep-test");
  for (const bool bf16 : {false, true}) {
    SCOPED_TRACE(bf16 ? "bf16" : "fp32");
    auto options = zero_arguments(0);
    options.bf16 = bf16;
    const auto ddp = on_ranks(2, wide_gpt2, options);
    auto keeps = options;
    keeps.parallel.parallelism.zero = 3;
    keeps.parallel.parallelism.keep_bytes = 1 << 20;
    keeps.save_strategy = "steps";
    keeps.save_steps = 4;
    keeps.output.dir = (folder / "run").string();
    keeps.output.overwrite = true;
    expect_same_bits(ddp, on_ranks(2, wide_gpt2, keeps), kZeroSteps);
    auto later = keeps;
    later.resume_from_checkpoint = (folder / "run/checkpoint-4").string();
    EXPECT_TRUE(at::equal(ddp.weights, on_ranks(2, wide_gpt2, later).weights));
    later.parallel.parallelism.zero = later.parallel.parallelism.keep_bytes = 0;
    EXPECT_TRUE(at::equal(ddp.weights, on_ranks(2, wide_gpt2, later).weights));
    run_ranks(2, [&](const job::Job& job) {
      Trainer trainer(wide_gpt2, keeps, texts(), nullptr, job);
      auto& replica = trainer.strategy().replica();
      const auto& layout = replica.flat().layout();
      int64_t table = 0;
      for (const auto& bucket : layout.buckets()) table = std::max(table, bucket.all.length());
      EXPECT_GE(table, 12000 * 24);
      const int64_t small = layout.num_elements() - table;
      const auto use = replica.memory();
      const int64_t weight = bf16 ? 2 : 4;
      EXPECT_EQ(use.parameters,
                weight * (table / 2 + small) + (bf16 ? 4 * (table + small) / 2 : 0));
      EXPECT_EQ(replica.most_gathered(), weight * table);
    });
  }
  std::filesystem::remove_all(folder);
}

TEST(Zero, RanksOverGlooAndReplicasInThreadsAgreeToo) {
  const auto alone = outcome_of(small_gpt2, texts(), zero_arguments(0, 2), one_device());
  const auto in_four = outcome_of(small_gpt2, texts(), zero_arguments(0, 4), one_device());
  for (const int64_t stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    const auto over_gloo = [&](int64_t accumulation) {
      return outcome_of_ddp([&](const job::Job& job) {
        return outcome_of(small_gpt2, texts(), zero_arguments(stage, accumulation), job);
      });
    };
    expect_same_bits(alone, outcome_of(small_gpt2, texts(), zero_arguments(stage), replicas(2)),
                     kZeroSteps);
    expect_same_bits(alone, over_gloo(1), kZeroSteps);
    if (stage < 2) continue;
    // Gloo sums a later micro-batch over the ranks before it is added to the first.
    const auto accumulated = over_gloo(2);
    ASSERT_EQ(accumulated.losses.size(), in_four.losses.size());
    for (size_t i = 0; i < in_four.losses.size(); ++i) {
      EXPECT_NEAR(accumulated.losses[i] / in_four.losses[i], 1, i == 0 ? 1e-6 : 1e-5) << i;
      EXPECT_NEAR(accumulated.norms[i] / in_four.norms[i], 1, i == 0 ? 1e-6 : 1e-4) << i;
    }
  }
}

TEST(Zero, SeveralStateReplicasAgreeToTheLastDigits) {
  // Sums of pairs are added to each other.
  const auto ddp = on_ranks(4, small_gpt2, zero_arguments(0));
  for (const int64_t stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    const auto outcome = on_copies(4, 2, zero_arguments(stage));
    ASSERT_EQ(outcome.losses.size(), ddp.losses.size());
    for (size_t i = 0; i < ddp.losses.size(); ++i) {
      EXPECT_NEAR(outcome.losses[i] / ddp.losses[i], 1, i == 0 ? 1e-6 : 1e-4) << i;
      EXPECT_NEAR(outcome.norms[i] / ddp.norms[i], 1, i == 0 ? 1e-6 : 1e-4) << i;
    }
  }
}

/// Gradients that were summed over all ranks are not summed over the state replicas, too.
TEST(Zero, StateReplicasOfOneRankAreDistributedDataParallelBitForBit) {
  for (const int ranks : {2, 4}) {
    const auto ddp = on_ranks(ranks, small_gpt2, zero_arguments(0, 2));
    for (const int64_t stage : {1, 2, 3}) {
      for (const bool each : {true, false}) {
        if (stage == 1 && !each) continue;  // it always does
        SCOPED_TRACE(
            fmt::format("stage {} on {} ranks, reduces {}", stage, ranks, each ? "each" : "last"));
        auto options = zero_arguments(stage, 2);
        options.parallel.parallelism.reduce_each = each;
        expect_same_bits(ddp, on_copies(ranks, 1, options), kZeroSteps);
      }
    }
  }
}

TEST(Zero, CountsTheTrafficOfSeveralStateReplicas) {
  const auto member = in_copies(4, 2);
  for (const int64_t stage : {1, 2}) {
    SCOPED_TRACE(stage);
    run_ranks(4, [&](const job::Job& rank) {
      const auto job = member(rank);
      Trainer trainer(small_gpt2, zero_arguments(stage), texts(), nullptr, job);
      auto& strategy = trainer.strategy();
      const auto before = strategy.traffic(), totals_before = job.groups.rows.traffic();
      strategy.step({{parallel::MicroBatch()}}, {}, {});
      const auto after = strategy.traffic(), totals = job.groups.rows.traffic();
      (void)strategy.weights();  // waits for the gathers
      // All ranks add up loss and norm only. A bucket is scattered whole, then half of it is summed
      // over the state replicas and gathered.
      const auto& layout = strategy.replica().flat().layout();
      ASSERT_EQ(layout.num_buckets(), layout.num_trained_buckets());
      EXPECT_EQ(after.collectives - before.collectives,
                totals.collectives - totals_before.collectives + 3 * layout.num_buckets());
      EXPECT_EQ(after.bytes - before.bytes,
                totals.bytes - totals_before.bytes + 2 * 4 * layout.num_elements());
    });
  }
}

TEST(Zero, EvaluationTakesPartWithoutRows) {
  // 61 rows in steps of 30 on 3 ranks: two of them have none of the last step's single row.
  std::vector<double> losses;
  for (const int64_t stage : {0, 1, 2, 3}) {
    run_ranks(3, [&](const job::Job& job) {
      at::set_num_threads(1);
      auto options = zero_arguments(stage);
      options.max_steps = 3;
      options.eval_strategy = "steps";
      options.eval_steps = 1;
      options.per_device_eval_batch_size = 10;
      Trainer trainer(small_gpt2, options, texts(), texts(), job);
      trainer.train();
      const auto metrics = trainer.evaluate();
      if (job.is_main()) losses.push_back(metrics.at("eval_loss"));
    });
  }
  for (const double loss : losses) EXPECT_EQ(loss, losses[0]);
}

TEST(Zero, AllRanksSkipAStepThatOverflowsOnOne) {
  auto config = models::small_session({.width = 8, .layers = 1, .length = 8});
  config.features.push_back({"price", false, 0});
  const auto factory = [config] { return models::make_session_model(config); };
  const auto run = [](int64_t stage, int64_t accumulation) {
    auto out = in_precision(zero_arguments(stage, accumulation), "fp16");
    out.max_steps = 24;  // two epochs of twelve
    return out;
  };
  const auto alone = outcome_of(factory, rare_prices(), run(0, 2), one_device());
  EXPECT_GT(alone.skipped_steps, 0);
  EXPECT_LT(alone.skipped_steps, 12);
  const auto logged = static_cast<size_t>(24 - alone.skipped_steps);
  for (const int64_t stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(stage);
    expect_same_bits(alone, on_ranks(2, factory, run(stage, 1), rare_prices()), logged);
  }
}

std::vector<std::string> warnings(const options::TrainingArguments& options, const job::Job& job) {
  Trainer trainer(small_gpt2, options, texts(), nullptr, job);
  return warnings_of(trainer);
}

TEST(Zero, WarnsWhereAStageHasNoEffect) {
  using testing::ElementsAre;
  using testing::HasSubstr;
  auto options = zero_arguments(3);
  options.max_steps = 1;
  EXPECT_THAT(warnings(options, one_device()),
              ElementsAre(HasSubstr("zero = 3 shards nothing on one rank")));
  const auto alone = in_copies(2, 1);
  run_ranks(2, [&](const job::Job& job) {
    const auto copies = warnings(options, alone(job));
    if (!job.is_main()) return;
    EXPECT_THAT(copies,
                ElementsAre(HasSubstr("zero = 3 shards nothing with one rank per state replica")));
  });
  auto idle = options;
  idle.parallel.parallelism.zero = 0;
  idle.parallel.parallelism.offload.folder = "scratch";
  EXPECT_THAT(warnings(idle, one_device()),
              ElementsAre(HasSubstr("offload_dir = scratch has no effect: nothing is offloaded to "
                                    "the disk; try --offload_optimizer disk")));
  run_ranks(2, [&](const job::Job& job) {
    auto own = options;
    const auto pieces = warnings(own, job);
    own.parallel.parallelism.keep_bytes = 1 << 20;
    const auto whole = warnings(own, job);
    own.parallel.parallelism.keep_bytes = 0;
    own.parallel.parallelism.bucket_bytes = 25 << 20;
    const auto one = warnings(own, job);
    if (!job.is_main()) return;
    EXPECT_THAT(pieces, ElementsAre());
    EXPECT_THAT(whole, ElementsAre(HasSubstr("all buckets of the model are below zero_keep_mb = 1; "
                                             "try a smaller one, or --zero 2")));
    EXPECT_THAT(one, ElementsAre(HasSubstr("zero = 3 gathers the whole model at once")));
  });
}

TEST(Zero, EachRankKeepsWhatItsStageSays) {
  for (const bool bf16 : {false, true}) {
    for (const int64_t stage : {0, 1, 2, 3}) {
      run_ranks(4, [&](const job::Job& job) {
        auto options = zero_arguments(stage);
        options.bf16 = bf16;
        Trainer trainer(small_gpt2, options, texts(), nullptr, job);
        auto& replica = trainer.strategy().replica();
        const auto n = static_cast<double>(replica.flat().layout().num_elements());
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

TEST(Zero, GatheredMemoryIsWhatTheProgramHasAlive) {
  const auto deep_gpt2 = [] {
    return models::small_gpt2(
               {.ids = kIds, .width = 24, .heads = 3, .layers = 4, .length = kLength})
        .make_blocks();
  };
  for (const int64_t stage : {2, 3}) {
    run_ranks(2, [&](const job::Job& job) {
      auto options = zero_arguments(stage);
      options.max_steps = 5;
      Trainer trainer(deep_gpt2, options, texts(), nullptr, job);
      trainer.train();
      auto& replica = trainer.strategy().replica();
      const int64_t weights = replica.flat().num_pooled_bytes();
      EXPECT_EQ(weights, replica.most_gathered()) << "stage " << stage;
      EXPECT_EQ(weights > 0, stage == 3);
      // Of one layer backward fills it, those of two are summed; the tied table's waits for all.
      int64_t layer = 0, table = 0;
      const auto& buckets = replica.flat().layout().buckets();
      for (const auto& bucket : buckets) layer = std::max(layer, bucket.all.length());
      for (const auto& bucket : buckets) {
        if (bucket.all.length() < layer) table = std::max(table, bucket.all.length());
      }
      const int64_t gradients = replica.memory().gathered - weights;
      EXPECT_GE(gradients, 4 * (table + 2 * layer)) << "stage " << stage;
      EXPECT_LE(gradients, 4 * (table + 3 * layer)) << "stage " << stage;
    });
  }
}

}  // namespace
}  // namespace convoy::train
