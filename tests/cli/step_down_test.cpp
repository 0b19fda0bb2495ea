#include <fmt/format.h>

#include "tests/cli/ranks_testing.h"

// Under auto_find_batch_size a step that is too large for one rank is made again by all, of smaller
// micro-batches: the same rows, so the numbers of a training that began with those.
namespace convoy {
namespace {

class StepDown : public Ranks {
 protected:
  static std::string train(const std::string& more) {
    return "$convoy train --family gpt2 --n_embd 32 --n_layer 4 --n_head 2 --n_positions 32 "
           "--vocab_size 100 --random_tokens 20000 --block_size 32 --threads 1 --nproc 2 "
           "--bucket_cap_mb 0 --max_steps 3 --logging_steps 1 --ddp_timeout 30 "
           "--overwrite_output_dir " +
           more;
  }

  /// A training that finds 8 rows, of which a rank lacks the memory in the first step, ends in the
  /// bits of one that begins with 4.
  void expect_equal(const std::string& fault, const std::string& options, int batch = 16) {
    SCOPED_TRACE(fault + " " + options);
    const auto small = fmt::format(
        "--output_dir small --per_device_train_batch_size 4 --gradient_accumulation_steps 2 {}",
        options);
    ASSERT_EQ(shell(train(small)), 0) << output_;
    const auto found = fmt::format(
        "--output_dir found --auto_find_batch_size --global_batch_size {} {}", batch, options);
    ASSERT_EQ(shell(fmt::format("CONVOY_FAULT={} ", fault) + train(found)), 0) << output_;
    expect(
        fmt::format("step 1: rank {} has too little memory for micro-batches of 8 rows; all ranks "
                    "continue with 4 x 2 accumulation, the same {} rows a step",
                    fault[fault.find('@') + 1], batch));
    EXPECT_EQ(losses("small"), losses("found"));
    EXPECT_TRUE(model("small") == model("found"));
  }
};

TEST_F(StepDown, AllRanksGoOnWithFewerRowsWhereOneIsShort) {
  expect_equal("oom@1:forward:1", "");
  expect_equal("oom@0:backward:1", "--zero 1 --bf16");
  expect_equal("oom@1:backward:1", "--zero 2 --gradient_checkpointing");
  expect_equal("oom@1:forward:1", "--zero 3");
  expect_equal("oom@1:backward:1", "--zero 3 --backend gloo");
  expect_equal("oom@0:backward:1",
               "--zero 2 --offload_optimizer disk --offload_gradients disk --offload_dir .");
}

TEST_F(StepDown, StagesOfAPipelineGoOnTogether) {
  for (const auto* schedule : {"gpipe", "1f1b"}) {
    for (const auto* fault :
         {"oom@0:forward:1", "oom@1:forward:1", "oom@0:backward:1", "oom@1:backward:1"}) {
      expect_equal(fault,
                   fmt::format("--pipeline_parallel_size 2 --pipeline_schedule {}", schedule), 8);
    }
  }
}

TEST_F(StepDown, KeepsTheLossesOfTheTraining) {
  ASSERT_EQ(shell(train("--output_dir whole --per_device_train_batch_size 8")), 0) << output_;
  ASSERT_EQ(shell("CONVOY_FAULT=oom@1:backward:3 " +
                  train("--output_dir found --auto_find_batch_size --global_batch_size 16 ")),
            0)
      << output_;
  expect("step 3: rank 1 has too little memory for micro-batches of 8 rows");
  expect_near(losses("whole"), losses("found"));
}

// A start that took the larger micro-batches again would end with other bits.
TEST_F(StepDown, ARestartKeepsTheSmallerMicroBatches) {
  const auto launched = [](const std::string& name) {
    return "$convoy launch -n 2 --max-restarts 2 train --family gpt2 --n_embd 32 --n_layer 4 "
           "--n_head 2 --n_positions 32 --vocab_size 100 --random_tokens 20000 --block_size 32 "
           "--threads 1 --max_steps 8 --logging_steps 1 --ddp_timeout 30 --save_strategy no "
           "--auto_find_batch_size --global_batch_size 16 --memory_copy_steps 1 --output_dir " +
           name;
  };
  const std::string short_of_memory = "CONVOY_FAULT=oom@1:backward:3";
  ASSERT_EQ(shell(short_of_memory + " " + launched("whole")), 0) << output_;
  ASSERT_EQ(shell(short_of_memory + ",sigkill@0:forward:6 " + launched("again")), 0) << output_;
  expect("start 2: going on from the memory copy of step 5");
  EXPECT_EQ(losses("whole"), losses("again"));
  EXPECT_TRUE(model("whole") == model("again"));
}

// Rank 0 finds what fits it; the other has less. What the system gives to no process any more after
// a step, such as stacks of threads, is no matter of this test.
TEST_F(StepDown, ARankThatMayHaveLessMemoryIsTheReason) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer takes its own share";
#endif
  const std::string options =
      "$convoy train --family gpt2 --n_embd 128 --n_layer 6 --n_head 4 --n_positions 512 "
      "--vocab_size 500 --random_tokens 100000 --block_size 512 --threads 1 --max_steps 1 "
      "--logging_steps 1 --ddp_timeout 30 --save_strategy no ";
  const auto found = options + "--output_dir found --auto_find_batch_size --global_batch_size 32";
  shell(kChoosePort + rank_variables("0") + found + " & p0=$!; (ulimit -d 600000; " +
        rank_variables("1") + found + ") & p1=$!; wait $p1; wait $p0");
  // How much of it the libraries take differs by processor.
  if (!says("too little memory") && !says("there is no memory left")) {
    GTEST_SKIP() << "here a rank with ulimit -d 600000 has too little to begin, or enough";
  }
  expect("step 1: rank 1 has too little memory for micro-batches of 16 rows");
  const std::string told = "all ranks continue with ";
  const auto at = output_.rfind(told);
  ASSERT_NE(at, std::string::npos) << output_;
  int64_t rows = 0, times = 0;
  ASSERT_EQ(std::sscanf(output_.c_str() + at + told.size(), "%ld x %ld", &rows, &times), 2)
      << output_;
  EXPECT_EQ(rows * times, 16);
  ASSERT_EQ(shell(options + fmt::format("--nproc 2 --output_dir small "
                                        "--per_device_train_batch_size {} "
                                        "--gradient_accumulation_steps {}",
                                        rows, times)),
            0)
      << output_;
  EXPECT_EQ(losses("small"), losses("found"));
}

TEST_F(StepDown, TrainingEndsWhereNoSmallerBatchIsAllowed) {
  EXPECT_EQ(shell("CONVOY_FAULT=oom@1:forward:1 " +
                  train("--auto_find_batch_size --global_batch_size 2")),
            1)
      << output_;
  expect("there is no memory left");
  EXPECT_EQ(shell("CONVOY_FAULT=oom@1:forward:1 " + train("--per_device_train_batch_size 8")), 1)
      << output_;
  expect("there is no memory left");
  // Inside of a layer the others wait for sums.
  EXPECT_EQ(shell("CONVOY_FAULT=oom@1:forward:1 " +
                  train("--auto_find_batch_size --global_batch_size 8 --tensor_parallel_size 2")),
            1)
      << output_;
  expect("there is no memory left");
}

TEST_F(StepDown, RowsOfATableAreFetchedAgain) {
  const auto sessions = "$convoy train" + kTiny +
                        "--max_steps 3 --sampled_softmax true --max_n_samples 10 --row_tables true "
                        "--nproc 2 --overwrite_output_dir ";
  ASSERT_EQ(shell(sessions + "--output_dir small --per_device_train_batch_size 4 "
                             "--gradient_accumulation_steps 2"),
            0)
      << output_;
  ASSERT_EQ(shell("CONVOY_FAULT=oom@1:backward:1 " + sessions +
                  "--output_dir found --auto_find_batch_size --global_batch_size 16"),
            0)
      << output_;
  expect("all ranks continue with 4 x 2 accumulation");
  EXPECT_EQ(losses("small"), losses("found"));
  EXPECT_TRUE(model("small") == model("found"));
}

}  // namespace
}  // namespace convoy
