#include <fmt/format.h>

#include "tests/cli/ranks_testing.h"
#include "tests/cli/ring_of_words.h"

// Real processes that share out the weights of layers.
namespace convoy {
namespace {

class TensorCommand : public Ranks {
 protected:
  void SetUp() override {
    Ranks::SetUp();
    write_ring_of_words(folder_, 8);
  }

  /// With three heads, and dropout.
  static std::string gpt2(const std::string& more) {
    return "train --model_type gpt2 --n_embd 24 --n_layer 2 --n_head 3 --n_positions 32"
           " --data.train text.txt --data.tokenizer words --block_size 16 --learning_rate 1e-2"
           " --lr_scheduler_type constant --per_device_train_batch_size 4 --threads 1"
           " --gradient_accumulation_steps 2 --logging_steps 1 --save_steps 3 " +
           more;
  }

  static constexpr const char* kTwo = "--nproc 2 --tensor_parallel_size 2 ";
};

TEST_F(TensorCommand, RanksTrainAsOneDeviceAndGoOnWithItsCheckpoints) {
  const std::string two = kTwo;
  ASSERT_EQ(run(gpt2("--max_steps 6 --output_dir one")), 0) << output_;
  ASSERT_EQ(run(gpt2("--max_steps 6 --output_dir two " + two)), 0) << output_;
  expect("strategy       tensor");
  expect("mesh           2 tensor");
  expect("batch          4 per device x 1 device x 2 accumulation = 8 in total");
  expect_near(losses("one"), losses("two"));
  for (const char* key : {"eval_loss", "eval_accuracy"}) {
    EXPECT_NEAR(json("two/eval_results.json").at(key), json("one/eval_results.json").at(key), 1e-4);
  }
  // What one device saved, two ranks load and save: the same files.
  ASSERT_EQ(run(gpt2("--max_steps 6 --output_dir saved --resume_from_checkpoint one/checkpoint-6 " +
                     two)),
            0)
      << output_;
  EXPECT_TRUE(model("saved") == model("one"));
  ASSERT_EQ(
      run(gpt2("--max_steps 6 --output_dir on --resume_from_checkpoint one/checkpoint-3 " + two)),
      0)
      << output_;
  const auto whole = losses("one");
  expect_near({whole.begin() + 3, whole.end()}, losses("on"), 1e-4);
  ASSERT_EQ(run(gpt2("--max_steps 9 --output_dir back --resume_from_checkpoint on/checkpoint-6")),
            0)
      << output_;
  ASSERT_EQ(run("checkpoint verify on/checkpoint-6"), 0) << output_;
}

TEST_F(TensorCommand, RanksShareOutTokens) {
  const std::string two = std::string(kTwo) + "--sequence_parallel ";
  ASSERT_EQ(run(gpt2("--max_steps 6 --output_dir one")), 0) << output_;
  ASSERT_EQ(run(gpt2("--max_steps 6 --output_dir two --check_replicas_steps 2 " + two)), 0)
      << output_;
  expect("mesh           2 tensor, sequence parallel");
  expect_near(losses("one"), losses("two"));
  for (const char* key : {"eval_loss", "eval_accuracy"}) {
    EXPECT_NEAR(json("two/eval_results.json").at(key), json("one/eval_results.json").at(key), 1e-4);
  }
  // On three ranks 4 x 16 tokens do not divide.
  ASSERT_EQ(run(gpt2("--max_steps 6 --output_dir on --resume_from_checkpoint two/checkpoint-3 "
                     "--nproc 3 --tp_size 3 --sequence_parallel --gradient_checkpointing")),
            0)
      << output_;
  const auto whole = losses("one");
  expect_near({whole.begin() + 3, whole.end()}, losses("on"), 1e-4);
  ASSERT_EQ(run("checkpoint verify on/checkpoint-6"), 0) << output_;
  ASSERT_EQ(run("eval one --json --threads 1 > one.json"), 0) << output_;
  ASSERT_EQ(run("eval one --json --threads 1 " + two + "> two.json"), 0) << output_;
  for (const char* key : {"eval_loss", "eval_accuracy", "eval_samples"}) {
    EXPECT_NEAR(json("two.json").at(key), json("one.json").at(key), 1e-5) << key;
  }
  ASSERT_EQ(run("generate one --prompt w1 --max_new_tokens 4 " + two), 0) << output_;
  expect("without effect here: --sequence_parallel");
}

// Pipeline x data x tensor with ZeRO 1, of eight real ranks.
TEST_F(TensorCommand, EightRanksTrainInThreeDimensions) {
  ASSERT_EQ(run(gpt2("--max_steps 6 --output_dir one")), 0) << output_;
  ASSERT_EQ(run("launch -n 8 " + gpt2("--max_steps 6 --output_dir eight --zero 1 --pp_size 2 "
                                      "--tp_size 2 --per_device_train_batch_size 2 "
                                      "--check_replicas_steps 2")),
            0)
      << output_;
  expect("mesh           2 pipeline x 2 data x 2 tensor");
  expect_near(losses("one"), losses("eight"));
  ASSERT_EQ(run("checkpoint verify eight/checkpoint-6"), 0) << output_;
  ASSERT_EQ(run(gpt2("--max_steps 9 --output_dir on --resume_from_checkpoint eight/checkpoint-3 "
                     "--nproc 4 --tp_size 2 --zero 2 --per_device_train_batch_size 2")),
            0)
      << output_;
  expect("zero = 2 with tensor ranks: gradients are reduced after each micro-batch");
  ASSERT_EQ(run(gpt2("--max_steps 9 --output_dir whole")), 0) << output_;
  const auto whole = losses("whole");
  expect_near({whole.begin() + 3, whole.end()}, losses("on"), 1e-4);
}

TEST_F(TensorCommand, RanksTrainOverGloo) {
  ASSERT_EQ(run(gpt2("--max_steps 4 --output_dir shm " + std::string(kTwo))), 0) << output_;
  ASSERT_EQ(run(gpt2("--max_steps 4 --output_dir gloo --backend gloo " + std::string(kTwo))), 0)
      << output_;
  expect_near(losses("shm"), losses("gloo"), 1e-6);
}

TEST_F(TensorCommand, RanksEvaluateAndGoOnWithText) {
  ASSERT_EQ(run(gpt2("--max_steps 60 --output_dir out")), 0) << output_;
  const std::string four = "--nproc 4 --tp_size 2 ";
  ASSERT_EQ(run("eval out --json --threads 1 > one.json"), 0) << output_;
  ASSERT_EQ(run("eval out --json --threads 1 > four.json " + four), 0) << output_;
  for (const char* key : {"eval_loss", "eval_accuracy", "eval_samples"}) {
    EXPECT_NEAR(json("four.json").at(key), json("one.json").at(key), 1e-5) << key;
  }
  ASSERT_EQ(run("generate out --prompt w1 --prompt 'w2 w3' --max_new_tokens 8 --quiet > one"), 0)
      << output_;
  ASSERT_EQ(run("generate out --prompt w1 --prompt 'w2 w3' --max_new_tokens 8 --quiet > two " +
                std::string(kTwo)),
            0)
      << output_;
  EXPECT_EQ(read_file(folder_ / "one"), read_file(folder_ / "two"));
  for (const auto& [ranks, name] : {std::pair("", "drawn"), {kTwo, "drawn by two"}}) {
    ASSERT_EQ(
        run(fmt::format("generate out --prompt w1 --prompt 'w2 w3' --max_new_tokens 8 --quiet "
                        "--temperature 2 --top-k 9 --seed 7 {} > '{}'",
                        ranks, name)),
        0)
        << output_;
  }
  EXPECT_EQ(read_file(folder_ / "drawn"), read_file(folder_ / "drawn by two"));
  EXPECT_NE(read_file(folder_ / "drawn"), read_file(folder_ / "one"));
}

TEST_F(TensorCommand, ASessionModelIsEvaluatedAndPredictsOnAllRanks) {
  const std::string tiny = "train" + kTiny + "--max_steps 6 ";
  ASSERT_EQ(run(tiny + "--output_dir one"), 0) << output_;
  ASSERT_EQ(run(tiny + kTwo + "--output_dir two"), 0) << output_;
  expect_near(losses("one"), losses("two"));
  for (const auto& [ranks, name] : {std::pair("", "one"), {kTwo, "two"}}) {
    ASSERT_EQ(run(fmt::format("eval one --json --threads 1 {} > {}.json", ranks, name)), 0)
        << output_;
    ASSERT_EQ(run(fmt::format("predict one --top-k 3 --output {}.csv --threads 1 {}", name, ranks)),
              0)
        << output_;
  }
  for (const char* key : {"eval_loss", "eval_ndcg_at_10"}) {
    EXPECT_NEAR(json("two.json").at(key), json("one.json").at(key), 1e-5);
  }
  EXPECT_EQ(shell("cut -d, -f1-4 one.csv > a; cut -d, -f1-4 two.csv | diff a -"), 0) << output_;
  // Two pairs: each row once.
  ASSERT_EQ(run("predict one --top-k 3 --output four.csv --threads 1 --nproc 4 --tp_size 2"), 0)
      << output_;
  EXPECT_EQ(shell("sort one.csv | cut -d, -f1-4 > a; sort four.csv | cut -d, -f1-4 | diff a -"), 0)
      << output_;
}

TEST_F(TensorCommand, BenchComparesWhatIsSharedOutWithAllElse) {
  write_file(folder_ / "run.toml", "model.family = \"gpt2\"\nparallel.tensor_parallel_size = 2\n");
  const auto bench = [&](const std::string& more, const std::string& output) {
    return run("bench strategies run.toml " +
               gpt2("--max_steps 2 --per_device_train_batch_size 8 --save_strategy no " + more)
                   .substr(sizeof("train --model_type gpt2")) +
               " --output " + output);
  };
  ASSERT_EQ(bench("--strategies single,dp,ddp,tp,tp-sp", "two"), 0) << output_;
  expect("mesh           2 tensor, sequence parallel");
  ASSERT_EQ(bench("--strategies single,dp-tp,pp-tp --ranks 4", "four"), 0) << output_;
  expect("mesh           2 data x 2 tensor");
  expect("mesh           2 pipeline x 2 tensor");
  ASSERT_EQ(bench("--strategies single,3d --ranks 8", "eight"), 0) << output_;
  expect("mesh           2 pipeline x 2 data x 2 tensor");
  const auto two = json("two/strategies.json");
  for (const char* table : {"two", "four", "eight"}) {
    for (const auto& row : json(fmt::format("{}/strategies.json", table))) {
      EXPECT_NEAR(row["loss"], two[0]["loss"], 1e-5) << row;
    }
  }
  EXPECT_EQ(json("four/strategies.json")[2]["micro_batches"], 16) << "of twice as many steps";
  EXPECT_EQ(bench("--strategies 3d --ranks 4", "none"), 2) << output_;
  expect("3d on 4 ranks: 2 stages x 2 tensor ranks and others with other rows need 8 ranks");
}

TEST_F(TensorCommand, RefusesOptionsThatDoNotGoTogether) {
  const auto refused = [&](const std::string& options, const char* why) {
    EXPECT_EQ(run(gpt2("--max_steps 1 " + options)), 2) << output_;
    expect(why);
  };
  refused("--tensor_parallel_size 2",
          "tensor_parallel_size = 2 needs a process for each tensor rank; got one process; try "
          "--nproc 2");
  refused("--nproc 3 --tensor_parallel_size 2", "got 3 ranks; try --nproc 4");
  refused("--nproc 2 --tensor_parallel_size 2 --pp_size 2",
          "pipeline_parallel_size = 2 and tensor_parallel_size = 2 need a process for each tensor "
          "rank of each stage, 4 together; got 2 ranks; try --nproc 4");
  refused("--strategy dp --replicas 2 --tensor_parallel_size 2",
          "but strategy = dp is DataParallel in one process; try --nproc 4 without it");
  refused("--nproc 4 --tensor_parallel_size 4",
          "tensor_parallel_size = 4 is more than the heads, ids or inner units that weights "
          "consist of: transformer.h.0.attn.c_attn.weight 3, ");
  expect("try --tensor_parallel_size 2");
  refused(
      "--sequence_parallel",
      "sequence_parallel shares out tokens over tensor ranks, but tensor_parallel_size = 1; try "
      "--tensor_parallel_size 2, or without it");
  refused("--nproc 2 --sequence_parallel", "sequence_parallel shares out tokens");
  refused("--pp_size 2 --sequence_parallel", "sequence_parallel shares out tokens");
  EXPECT_EQ(run("train" + kTiny + "--max_steps 1 --tp 2"), 2) << output_;
  expect("tensor_parallel_size");
}

}  // namespace
}  // namespace convoy
