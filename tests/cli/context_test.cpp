#include <fmt/format.h>

#include "tests/cli/ranks_testing.h"
#include "tests/cli/ring_of_words.h"

// Real processes that share out the positions of rows.
namespace convoy {
namespace {

class ContextCommand : public Ranks {
 protected:
  void SetUp() override {
    Ranks::SetUp();
    write_ring_of_words(folder_, 8);
  }

  /// With dropout; 18 positions are no multiple of four stretches.
  static std::string gpt2(const std::string& more) {
    return "train --model_type gpt2 --n_embd 24 --n_layer 2 --n_head 2 --n_positions 32"
           " --data.train text.txt --data.tokenizer words --block_size 18 --learning_rate 1e-2"
           " --lr_scheduler_type constant --per_device_train_batch_size 4 --threads 1"
           " --gradient_accumulation_steps 2 --logging_steps 1 --save_steps 3 " +
           more;
  }

  static constexpr const char* kTwo = "--nproc 2 --context_parallel_size 2 ";
};

TEST_F(ContextCommand, RanksTrainAsOneDeviceAndGoOnWithItsCheckpoints) {
  const std::string two = kTwo;
  ASSERT_EQ(run(gpt2("--max_steps 6 --output_dir one")), 0) << output_;
  ASSERT_EQ(run(gpt2("--max_steps 6 --output_dir two --check_replicas_steps 2 " + two)), 0)
      << output_;
  expect("strategy       context");
  expect("mesh           2 context");
  expect("batch          4 per device x 1 device x 2 accumulation = 8 in total");
  expect_near(losses("one"), losses("two"));
  for (const char* key : {"eval_loss", "eval_accuracy"}) {
    EXPECT_NEAR(json("two/eval_results.json").at(key), json("one/eval_results.json").at(key), 1e-4);
  }
  const auto whole = losses("one");
  const std::vector<double> rest(whole.begin() + 3, whole.end());
  for (const auto& [from, ranks] :
       {std::pair("two", ""),
        {"two", "--nproc 2 --tp_size 2"},
        {"one", kTwo},
        {"two", "--nproc 3 --cp_size 3 --gradient_checkpointing --zero 1"}}) {
    SCOPED_TRACE(fmt::format("from {} with '{}'", from, ranks));
    ASSERT_EQ(run(gpt2(fmt::format("--max_steps 6 --output_dir on --overwrite_output_dir "
                                   "--resume_from_checkpoint {}/checkpoint-3 {}",
                                   from, ranks))),
              0)
        << output_;
    expect_near(rest, losses("on"), 1e-4);
    ASSERT_EQ(run("checkpoint verify on/checkpoint-6"), 0) << output_;
  }
}

TEST_F(ContextCommand, RanksEvaluate) {
  ASSERT_EQ(run(gpt2("--max_steps 20 --output_dir out")), 0) << output_;
  ASSERT_EQ(run("eval out --json --threads 1 > one.json"), 0) << output_;
  ASSERT_EQ(run("eval out --json --threads 1 --nproc 4 --cp_size 2 > four.json"), 0) << output_;
  for (const char* key : {"eval_loss", "eval_accuracy", "eval_samples"}) {
    EXPECT_NEAR(json("four.json").at(key), json("one.json").at(key), 1e-5) << key;
  }
  // More ranks than a row has positions: some have none of it.
  ASSERT_EQ(run(gpt2("--block_size 3 --max_steps 2 --output_dir short")), 0) << output_;
  ASSERT_EQ(run("eval short --json --threads 1 > one.json"), 0) << output_;
  ASSERT_EQ(run("eval short --json --threads 1 --nproc 4 --cp_size 4 > four.json"), 0) << output_;
  for (const char* key : {"eval_loss", "eval_accuracy", "eval_samples"}) {
    EXPECT_NEAR(json("four.json").at(key), json("one.json").at(key), 1e-5) << key;
  }
  for (const std::string command : {"generate out --prompt w1 ", "predict out --rows 1 "}) {
    EXPECT_EQ(run(command + kTwo), 2) << output_;
    expect(
        "context_parallel_size = 2 is for training and evaluation, and predictions are of whole "
        "rows; try --tensor_parallel_size, or without it");
  }
}

// All ways to share out work at once, of eight real ranks.
TEST_F(ContextCommand, EightRanksTrainInThreeDimensions) {
  ASSERT_EQ(run(gpt2("--max_steps 4 --output_dir one")), 0) << output_;
  ASSERT_EQ(run("launch -n 8 " + gpt2("--max_steps 4 --output_dir eight --zero 1 --pp_size 2 "
                                      "--cp_size 2 --tp_size 2 --sequence_parallel "
                                      "--check_replicas_steps 2")),
            0)
      << output_;
  expect("mesh           2 pipeline x 2 context x 2 tensor, sequence parallel");
  expect_near(losses("one"), losses("eight"));
}

TEST_F(ContextCommand, RanksTrainOverGloo) {
  ASSERT_EQ(run(gpt2("--max_steps 4 --output_dir shm " + std::string(kTwo))), 0) << output_;
  ASSERT_EQ(run(gpt2("--max_steps 4 --output_dir gloo --backend gloo " + std::string(kTwo))), 0)
      << output_;
  expect_near(losses("shm"), losses("gloo"), 1e-6);
}

TEST_F(ContextCommand, BenchComparesIt) {
  write_file(folder_ / "run.toml", "model.family = \"gpt2\"\nparallel.context_parallel_size = 4\n");
  ASSERT_EQ(run("bench strategies run.toml " +
                gpt2("--max_steps 2 --per_device_train_batch_size 8 --save_strategy no "
                     "--strategies single,ddp,cp --output two")
                    .substr(sizeof("train --model_type gpt2"))),
            0)
      << output_;
  expect("mesh           2 context");
  const auto rows = json("two/strategies.json");
  ASSERT_EQ(rows.size(), 3U);
  for (const auto& row : rows) EXPECT_NEAR(row["loss"], rows[0]["loss"], 1e-5) << row;
}

TEST_F(ContextCommand, RefusesOptionsThatDoNotGoTogether) {
  const auto refused = [&](const std::string& command, const char* why) {
    EXPECT_EQ(run(command), 2) << output_;
    expect(why);
  };
  const auto with = [](const std::string& options) { return gpt2("--max_steps 1 " + options); };
  refused(with("--cp_size 2"),
          "context_parallel_size = 2 needs a process for each context rank; got one process; try "
          "--nproc 2");
  refused(with("--nproc 3 --cp_size 2"), "got 3 ranks; try --nproc 4");
  refused(with("--nproc 2 --cp_size 2 --tp_size 2 --pp_size 2"),
          "pipeline_parallel_size = 2 and context_parallel_size = 2 and tensor_parallel_size = 2 "
          "need a process for each tensor rank of each context rank of each stage, 8 together; got "
          "2 ranks; try --nproc 8");
  refused(with("--strategy dp --replicas 2 --cp_size 2"),
          "context_parallel_size = 2 needs a process for each rank, but strategy = dp is "
          "DataParallel in one process; try --nproc 4 without it");
  refused(with("--nproc 4 --cp_size 4 --block_size 3"),
          "block_size = 3 tokens for context_parallel_size = 4 ranks that share them out; try at "
          "most 3, or longer rows");
  refused(with("--nproc 4 --cp_size 2 --zero 1 --shard_ranks 1"),
          "shard_ranks = 1 with context_parallel_size = 2: the ranks that share out a row keep a "
          "state replica together; try a multiple of 2, or all");
  const char* needs = "context_parallel_size = 2 needs blocks that compute with some positions";
  refused("train" + kTiny + "--max_steps 1 " + kTwo, needs);
  refused(
      "train --model_type t5 --d_model 16 --d_kv 8 --num_heads 2 --num_layers 1 --d_ff 16 "
      "--vocab_size 300 --data.random_tokens 5000 --block_size 32 --max_steps 1 --output_dir "
      "none " +
          std::string(kTwo),
      needs);
  refused("estimate --ranks 2 --cp_size 2" + kTiny, needs);
  refused("train" + kTiny + "--max_steps 1 --cp 2", "context_parallel_size");
}

}  // namespace
}  // namespace convoy
