#include <fmt/format.h>

#include <string>

#include "tests/cli/command_testing.h"

// The guide's cases with megabytes for its gigabytes: trainings that take what plans say.
namespace convoy {
namespace {

class SmallSeedCases : public CommandTest {
 protected:
  static std::string options(const std::string& more) {
    return " --family gpt2 --n_embd 256 --n_layer 6 --n_head 4 --n_positions 32 --vocab_size 500 "
           "--resid_pdrop 0 --embd_pdrop 0 --attn_pdrop 0 --random_tokens 40000 --block_size 32 "
           "--per_device_train_batch_size 2 --threads 1 --bucket_cap_mb 1 " +
           more;
  }

  static std::string within(int megabytes) {
    return fmt::format("--device_memory {}MB ", megabytes);
  }

  Json plan(const std::string& more, int code = 0) {
    EXPECT_EQ(run("plan --json --max_rows 2 --output plan.toml" + options(more) + " > plan.json"),
              code)
        << output_;
    return json("plan.json");
  }

  static Json family(const Json& plan, const std::string& name) {
    for (const auto& row : plan["families"]) {
      if (row["family"] == name) return row;
    }
    return {};
  }

  int train(const std::string& more) {
    return run("train --max_steps 3 --save_strategy no --overwrite_output_dir --output_dir out " +
               more);
  }
  double measured(const char* name) { return json("out/train_results.json").at(name); }

  /// Trains by the plan, which has the limit, and finds the memory that was told.
  void train_as_planned(const Json& best, int ranks) {
    ASSERT_EQ(train(fmt::format("plan.toml --nproc {}", ranks)), 0) << output_;
    EXPECT_NEAR(best["memory_bytes"].get<double>() / measured("memory_bytes_per_rank"), 1, 0.03)
        << best;
  }
};

// DDP or ZeRO, whichever is faster; on a host with other work another kind may measure the same.
TEST_F(SmallSeedCases, ModelThatFitsNeedsNoMoreThanDdpOrZero) {
  const auto found = plan("--ranks 2");
  for (const char* name : {"ddp", "zero 1"}) {
    const auto simple = family(found, name);
    ASSERT_FALSE(simple.is_null()) << name;
    EXPECT_EQ(simple["fits"], "yes");
    EXPECT_LT(simple["seconds"].get<double>(), 1.5 * found["best"]["seconds"].get<double>());
  }
  train_as_planned(found["best"], 2);
}

TEST_F(SmallSeedCases, ModelTooLargeForADeviceIsSplit) {
  constexpr int kLimit = 70;  // of 79 MB of state
  const auto found = plan("--ranks 2 " + within(kLimit));
  EXPECT_EQ(family(found, "ddp")["fits"], "no");
  EXPECT_EQ(train("--nproc 2" + options(within(kLimit))), 2) << "ddp";
  expect("but device_memory = 66.8 MiB; try what convoy plan --ranks 2 finds");
  train_as_planned(found["best"], 2);
  // Each of the ways that the guide names, where its memory is said to fit.
  for (const char* way : {"--zero 3", "--tensor_parallel_size 2",
                          "--pipeline_parallel_size 2 --gradient_accumulation_steps 2"}) {
    EXPECT_EQ(train("--nproc 2" + options(within(kLimit) + way)), 0) << way << output_;
  }
}

// A table of 20,000 ids takes 82 MB with its moments, all else of the model 13.
TEST_F(SmallSeedCases, ALayerThatDoesNotFitIsCut) {
  constexpr int kLimit = 75;
  const std::string large = "--vocab_size 20000 --n_layer 1 " + within(kLimit);
  const auto found = plan("--ranks 2 " + large);
  const auto stages = family(found, "pipeline");
  if (!stages.is_null()) EXPECT_EQ(stages["fits"], "no") << stages;
  EXPECT_EQ(found["best"]["pipeline_parallel_size"], 1) << found["best"];
  train_as_planned(found["best"], 2);
  ASSERT_EQ(run("plan --ranks 2 --max_rows 1" + options(large)), 0) << output_;
  expect("no stage of a pipeline can hold it");
  EXPECT_EQ(train("--nproc 2 --pipeline_parallel_size 2 --gradient_accumulation_steps 2" +
                  options(large)),
            2)
      << output_;
  expect("is not enough");
}

// AdamW takes four times the weights: 78 MB on 2 x 36 are too many, offloaded they fit.
TEST_F(SmallSeedCases, ModelTooLargeForAllRanksIsOffloaded) {
  const std::string small = "--ranks 2 " + within(36);
  EXPECT_TRUE(plan(small, 1)["best"].is_null());
  const auto best = plan(small + "--offload_dir . ")["best"];
  EXPECT_NE(best["family"].get<std::string>().find("offload"), std::string::npos) << best;
  train_as_planned(best, 2);
}

TEST_F(SmallSeedCases, FourSmallDevicesHoldWhatALargeOneHolds) {
  constexpr int kLimit = 34;
  const std::string deep = "--n_layer 8 --pipeline_schedule naive --gradient_accumulation_steps 1 ";
  EXPECT_EQ(train(options("--n_layer 8 " + within(4 * kLimit))), 0) << output_;
  EXPECT_EQ(train(options("--n_layer 8 " + within(kLimit))), 2) << output_;
  EXPECT_EQ(train("--nproc 4 --pipeline_parallel_size 4" + options(deep + within(kLimit))), 0)
      << output_;
}

TEST_F(SmallSeedCases, AStepHasAsManyRowsAsMicroBatchesOfAllRanks) {
  ASSERT_EQ(run("train --nproc 8 --max_steps 1 --save_strategy no --output_dir out" +
                options("--n_embd 8 --n_layer 1 --n_head 1 --n_positions 4 --block_size 4 "
                        "--per_device_train_batch_size 32 --gradient_accumulation_steps 4")),
            0)
      << output_;
  expect("= 1024 in total");
}

// Each micro-batch's gradients would be reduced on their own.
TEST_F(SmallSeedCases, StageTwoOfZeroWithAPipelineMovesMore) {
  const auto bytes = [&](int zero) {
    EXPECT_EQ(train("--nproc 4 --pipeline_parallel_size 2 --gradient_accumulation_steps 4 " +
                    options(fmt::format("--n_layer 2 --zero {}", zero))),
              0)
        << output_;
    return measured("train_bytes_per_step");
  };
  EXPECT_GT(bytes(2), 1.3 * bytes(1));
}

}  // namespace
}  // namespace convoy
