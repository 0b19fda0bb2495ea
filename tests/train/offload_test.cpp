#include <fmt/format.h>
#include <gmock/gmock.h>

#include "convoy/base/error.h"
#include "tests/train/zero_testing.h"

// State that has its place on a disk changes no bit.
namespace convoy::train {
namespace {

using namespace zero_testing;

class Offload : public InFolder {
 protected:
  options::TrainingArguments on_disk(options::TrainingArguments options) const {
    options.parallel.parallelism.offload.folder = folder_.string();
    options.parallel.parallelism.offload.optimizer = parallel::Place::Disk;
    if (options.parallel.parallelism.zero >= 2)
      options.parallel.parallelism.offload.gradients = parallel::Place::Disk;
    if (options.parallel.parallelism.zero >= 3)
      options.parallel.parallelism.offload.parameters = parallel::Place::Disk;
    return options;
  }

  std::string refusal(const options::TrainingArguments& options,
                      const job::Job& job = one_device()) const {
    try {
      Trainer trainer(small_gpt2, options, texts(), nullptr, job);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }
};

TEST_F(Offload, ChangesNoBit) {
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    for (const int64_t stage : {0, 2, 3}) {
      const int64_t accumulation = stage == 2 ? 3 : 1;
      SCOPED_TRACE(fmt::format("stage {} in {}", stage, precision));
      const auto options = in_precision(zero_arguments(stage, accumulation), precision);
      expect_same_bits(on_ranks(2, small_gpt2, options), on_ranks(2, small_gpt2, on_disk(options)),
                       kZeroSteps);
      if (precision == std::string("bf16")) continue;
      const auto alone = outcome_of(small_gpt2, texts(), options, one_device());
      expect_same_bits(alone, outcome_of(small_gpt2, texts(), on_disk(options), one_device()),
                       kZeroSteps);
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Offload, EachKindAloneChangesNoBitEither) {
  const auto options = zero_arguments(3, 2);
  const auto expected = on_ranks(2, small_llama, options);
  for (const bool each : {true, false}) {
    auto one = options;
    one.parallel.parallelism.offload.folder = folder_.string();
    one.parallel.parallelism.bucket_bytes = each ? 0 : 25 << 20;
    auto gradients = one;
    gradients.parallel.parallelism.offload.gradients = parallel::Place::Disk;
    expect_same_bits(expected, on_ranks(2, small_llama, gradients), kZeroSteps);
    auto parameters = one;
    parameters.parallel.parallelism.offload.parameters = parallel::Place::Disk;
    parameters.parallel.parallelism.gathers.prefetch = each ? 3 : 0;
    expect_same_bits(expected, on_ranks(2, small_llama, parameters), kZeroSteps);
  }
}

TEST_F(Offload, WorksWithSeveralStateReplicasAndGloo) {
  for (const int64_t stage : {1, 2, 3}) {
    SCOPED_TRACE(stage);
    const auto expected = outcome_of(small_gpt2, texts(), zero_arguments(stage), replicas(2));
    expect_same_bits(expected,
                     outcome_of(small_gpt2, texts(), on_disk(zero_arguments(stage)), replicas(2)),
                     kZeroSteps);
    expect_same_bits(expected, outcome_of_ddp([&](const job::Job& job) {
                       return outcome_of(small_gpt2, texts(), on_disk(zero_arguments(stage)), job);
                     }),
                     kZeroSteps);
    for (const int shard_ranks : {1, 2}) {
      SCOPED_TRACE(shard_ranks);
      expect_same_bits(on_copies(4, shard_ranks, zero_arguments(stage, 2)),
                       on_copies(4, shard_ranks, on_disk(zero_arguments(stage, 2))), kZeroSteps);
    }
  }
}

TEST_F(Offload, GoesOnFromItsCheckpointAndIntoOthers) {
  for (const bool bf16 : {false, true}) {
    auto options = zero_arguments(0);
    options.bf16 = bf16;
    const auto straight = on_ranks(2, small_gpt2, options);
    options.save_strategy = "steps";
    options.save_steps = 4;
    for (const int64_t stage : bf16 ? std::vector<int64_t>{0} : std::vector<int64_t>{1, 2, 3}) {
      for (const bool disk_first : {true, false}) {
        SCOPED_TRACE(fmt::format("stage {}{}, {}", stage, bf16 ? " in bf16" : "",
                                 disk_first ? "saved from the disk" : "read to the disk"));
        auto first = options;
        first.output.dir = (folder_ / "run").string();
        first.output.overwrite = true;
        first.parallel.parallelism.zero = stage;
        auto second = first;
        second.resume_from_checkpoint = (folder_ / "run/checkpoint-4").string();
        expect_same_bits(straight, on_ranks(2, small_gpt2, disk_first ? on_disk(first) : first),
                         kZeroSteps);
        const auto resumed = on_ranks(2, small_gpt2, disk_first ? second : on_disk(second));
        EXPECT_TRUE(at::equal(straight.weights, resumed.weights));
      }
    }
  }
}

TEST_F(Offload, RefusesWhatCannotBe) {
  using testing::HasSubstr;
  auto options = zero_arguments(0);
  options.parallel.parallelism.offload.optimizer = parallel::Place::Cpu;
  EXPECT_THAT(refusal(options), HasSubstr("the device is the CPU, whose memory that is; try "
                                          "offload_optimizer = disk"));
  options.parallel.parallelism.offload.optimizer = parallel::Place::Disk;
  EXPECT_THAT(refusal(options), HasSubstr("offload_optimizer = disk needs a folder"));
  options.parallel.parallelism.offload.folder = (folder_ / "none").string();
  EXPECT_THAT(refusal(options), HasSubstr("/none is no folder on "));
  EXPECT_THAT(refusal(options), HasSubstr(", seen from rank 0"));
  options.parallel.parallelism.offload.folder = "/proc";
  EXPECT_THAT(refusal(options), HasSubstr("offload_optimizer = disk, rank 0: cannot "));
  EXPECT_THAT(refusal(options), HasSubstr(" in /proc: "));
  options.parallel.parallelism.offload.folder = folder_.string();
  EXPECT_EQ(refusal(options), "none");
  EXPECT_THAT(refusal(options, replicas(2)), HasSubstr("with DataParallel"));
  options.parallel.parallelism.offload.gradients = parallel::Place::Disk;
  EXPECT_THAT(refusal(options), HasSubstr("offload_gradients = disk with zero = 0: backward needs "
                                          "whole gradients there; try --zero 2"));
  options.parallel.parallelism.offload.gradients = parallel::Place::Device;
  options.parallel.parallelism.offload.parameters = parallel::Place::Disk;
  EXPECT_THAT(refusal(options), HasSubstr("try --zero 3"));
  options.parallel.parallelism.zero = 3;
  options.parallel.parallelism.keep_bytes = 4 << 20;
  EXPECT_THAT(refusal(options), HasSubstr("offload_parameters = disk with zero_keep_mb = 4: what "
                                          "is kept whole is in memory; try one of the two"));
}

TEST_F(Offload, KeepsInMemoryWhatIsNotOnTheDisk) {
  run_ranks(2, [&](const job::Job& job) {
    auto options = on_disk(zero_arguments(3));
    options.bf16 = true;
    Trainer trainer(small_gpt2, options, texts(), nullptr, job);
    auto& replica = trainer.strategy().replica();
    const auto use = replica.memory();
    EXPECT_EQ(use.parameters + use.gradients + use.optimizer, 0);
    EXPECT_GE(use.offloaded, 18 * replica.flat().layout().num_elements() / 2);
    trainer.train();
    const auto after = replica.memory();
    EXPECT_EQ(after.parameters + after.gradients + after.optimizer, 0);
    EXPECT_GT(after.buffers, 0);
    EXPECT_EQ(replica.flat().num_pooled_bytes(), replica.most_gathered());
    EXPECT_GT(after.gathered, replica.most_gathered()) << "gradients before they are summed";
  });
}

}  // namespace
}  // namespace convoy::train
