#include <fmt/format.h>

#include "tests/cli/command_testing.h"

// What does not fit into memory goes through a disk, and says so when that is full.
namespace convoy {
namespace {

class OffloadCommand : public CommandTest {
 protected:
  /// 25 million parameters: 100 MB of weights, as much of gradients, 200 MB of moments.
  static std::string train(const std::string& more) {
    return "$convoy train --family gpt2 --n_embd 512 --n_layer 8 --n_head 4 --vocab_size 64 "
           "--n_positions 8 --block_size 8 --data.random_tokens 64 --per_device_train_batch_size 1 "
           "--max_steps 2 --logging_steps 1 --threads 1 --save_strategy no --bucket_cap_mb 10 " +
           more;
  }
};

TEST_F(OffloadCommand, TrainsFromDiskWhereTheOptimizersStateHasNoRoom) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer takes its own share";
#endif
  // What the program takes by itself, 200 MB of weights and gradients, and 100 MB for moments.
  const std::string limit = "ulimit -d 600000; ";
  EXPECT_EQ(shell(limit + train("")), 1) << output_;
  expect("convoy: error: [memory] there is no memory left for 96.3 MiB more");
  fs::create_directory(folder_ / "scratch");
  EXPECT_EQ(
      shell(limit + train("--offload_optimizer disk --offload_dir scratch --output_dir disk")), 0)
      << output_;
  const auto results = json("disk/train_results.json");
  const double waited = results["train_offload_wait_seconds"];
  EXPECT_GE(waited, 0);
  EXPECT_LT(waited, results["train_runtime"].get<double>());
  EXPECT_GT(results["memory_offloaded_bytes_per_rank"], 8 * 25e6);
  expect("optimizer 0 B");
  expect("offloaded");
  EXPECT_TRUE(fs::is_empty(folder_ / "scratch"));
}

TEST_F(OffloadCommand, PeakOfAProcessFallsByWhatItsStageGivesAway) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer takes its own share";
#endif
  const auto use = [&](int stage) {
    EXPECT_EQ(shell(train(fmt::format("--nproc 2 --zero {} --output_dir zero{}", stage, stage))), 0)
        << output_;
    return json(fmt::format("zero{}/train_results.json", stage));
  };
  constexpr const char* kPeak = "peak_memory_bytes_per_rank";
  const auto whole = use(0);
  const double ddp = whole[kPeak];
  double known = 0;
  for (const char* kind : {"parameters", "gradients", "optimizer", "activations"}) {
    const double bytes = whole[fmt::format("memory_{}_bytes_per_rank", kind)];
    EXPECT_GT(bytes, 0) << kind;
    known += bytes;
  }
  EXPECT_GT(known, 16 * 25e6);
  EXPECT_LT(known, ddp);
  EXPECT_GT(whole["train_comm_wait_percent"], 0);
  EXPECT_LE(whole["train_comm_wait_percent"], 100);
  EXPECT_FALSE(whole.contains("train_offload_wait_seconds"));
  for (const auto& [stage, bytes_per_parameter] : {std::pair{1, 4}, std::pair{3, 8}}) {
    const auto sharded = use(stage);
    const double gathered = sharded.value("memory_gathered_bytes_per_rank", 0.0);
    EXPECT_GT(ddp - sharded[kPeak].get<double>(), 0.9 * (bytes_per_parameter * 25.2e6 - gathered))
        << "stage " << stage << ": " << ddp << " and " << sharded.dump();
  }
}

TEST_F(OffloadCommand, AModelIsTooLargeByWhatStaysInMemory) {
  const std::string large = "--n_embd 16384 --n_layer 200 ";  // 644 billion parameters
  EXPECT_EQ(shell(train(large)), 2) << output_;
  expect("the whole model with gradient and the optimizer's states 9.38 TiB, but ");
  EXPECT_EQ(shell(train(large + "--offload_optimizer disk --offload_dir .")), 2) << output_;
  expect("what zero and offload leave of the model's state 4.69 TiB, but ");
  EXPECT_EQ(shell(train(large + "--offload_optimizer disk --offload_dir . --zero 3 --nproc 2")), 2);
  expect("what zero and offload leave of the model's state 2.34 TiB for each of 2 ranks");
}

TEST_F(OffloadCommand, ADiskWithoutRoomIsToldAtTheStart) {
  make_sessions();
  const auto words = "$convoy train" + kTiny + "--max_steps 1 --nproc 2 --offload_optimizer disk ";
  // Shared memory is a file, too.
  EXPECT_NE(shell("ulimit -f 1; " + words + "--offload_dir . --backend gloo"), 0);
  expect("offload_optimizer = disk, rank ");
  expect("in .: File too large");
  EXPECT_EQ(shell(words), 2) << output_;
  expect("offload_optimizer = disk needs a folder on a disk with room");
  EXPECT_EQ(shell(words + "--offload_dir nowhere"), 2) << output_;
  expect("offload_dir = nowhere is no folder on ");
  EXPECT_EQ(shell("$convoy train" + kTiny + "--max_steps 1 --offload_parameters cpu --zero 3"), 2);
  expect("offload_parameters = cpu moves what a GPU holds to its host's memory");
}

}  // namespace
}  // namespace convoy
