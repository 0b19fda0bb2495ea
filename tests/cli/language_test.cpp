#include <cmath>

#include "tests/cli/command_testing.h"

namespace convoy {
namespace {

/// Trains on lines of words that follow each other in a ring, so there is something to learn.
class LanguageCommand : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n", lines;
    for (int i = 0; i < 20; ++i) vocabulary += "w" + std::to_string(i) + "\n";
    for (int line = 0; line < 400; ++line) {
      for (int i = 0; i < 8; ++i) lines += "w" + std::to_string((line * 7 + i * 3) % 20) + " ";
      lines += "\n";
    }
    write_file(folder_ / "words/vocab.txt", vocabulary);
    write_file(folder_ / "text.txt", lines);
  }

  static constexpr const char* kTiny =
      " --data.train text.txt --data.tokenizer words --block_size 16 --learning_rate 1e-2"
      " --logging_steps 20 ";
  static constexpr const char* kGpt2 =
      " --family gpt2 --n_embd 16 --n_layer 2 --n_head 2 --n_positions 32 ";
  static constexpr const char* kLlama =
      " --model_type llama --hidden_size 16 --intermediate_size 32 --num_hidden_layers 2"
      " --num_attention_heads 4 --num_key_value_heads 2 --max_position_embeddings 32 ";

  double last(const char* file, const char* key) const { return json(file).at(key).get<double>(); }
};

TEST_F(LanguageCommand, BothFamiliesLearnAndAreEvaluatedAsTheyWereTrained) {
  for (const char* family : {kGpt2, kLlama}) {
    ASSERT_EQ(run(std::string("train") + family + kTiny +
                  "--max_steps 120 --output_dir out --overwrite_output_dir"),
              0)
        << output_;
    expect("perplexity");
    const double loss = last("out/eval_results.json", "eval_loss");
    EXPECT_LT(loss, 1.0) << "log(25) is 3.2";
    EXPECT_GT(last("out/eval_results.json", "eval_accuracy"), 0.6);
    EXPECT_NEAR(last("out/eval_results.json", "eval_perplexity"), std::exp(loss), 1e-6);
    EXPECT_TRUE(fs::exists(folder_ / "out/vocab.txt")) << "the tokenizer stays with its model";
    // Also where the tokenizer that it was trained with is gone.
    ASSERT_EQ(
        shell("mv words moved && $convoy eval out --json > again.json; code=$?; mv moved words; "
              "exit $code"),
        0)
        << output_;
    EXPECT_DOUBLE_EQ(last("again.json", "eval_loss"), loss);
    EXPECT_EQ(json("out/config.json").at("vocab_size"), 25);
  }
}

TEST_F(LanguageCommand, RanksGiveWhatAccumulationGives) {
  const std::string base = std::string("train") + kGpt2 + kTiny + "--max_steps 12 --threads 1 ";
  ASSERT_EQ(run(base + "--gradient_accumulation_steps 2 --output_dir one"), 0) << output_;
  ASSERT_EQ(run(base + "--nproc 2 --output_dir two"), 0) << output_;
  EXPECT_EQ(read_file(folder_ / "one/model.safetensors"),
            read_file(folder_ / "two/model.safetensors"));
}

TEST_F(LanguageCommand, GoesOnFromAFolderOfWeights) {
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny + "--max_steps 60 --output_dir out"), 0);
  const double before = last("out/eval_results.json", "eval_loss");
  ASSERT_EQ(
      run("train --model_name_or_path out --data.train text.txt --block_size 16 --max_steps 1 "
          "--learning_rate 0 --output_dir more"),
      0)
      << output_;
  EXPECT_DOUBLE_EQ(last("more/eval_results.json", "eval_loss"), before);
  ASSERT_EQ(run("train --model_name_or_path gpt2 --family gpt2 --data.train text.txt"), 2);
  expect("names of models on a hub are not fetched");
  ASSERT_EQ(run("train --model_name_or_path gpt2 --train_file text.txt"), 2);
  expect("model_name_or_path = gpt2 is no folder with config.json");
  ASSERT_EQ(run("train --family gpt2 --help"), 0);
  expect("--block_size");
}

TEST_F(LanguageCommand, BenchmarksTellPeakAndFloorAndLayOutTheGuidesTable) {
  write_file(folder_ / "run.toml", "[model]\nfamily = \"gpt2\"\n");
  const std::string options = std::string(kGpt2).substr(15) + kTiny;
  ASSERT_EQ(shell("$convoy bench step run.toml " + options +
                  "--steps 3 --warmup 1 --threads 1 --json > step.json"),
            0)
      << output_;
  const auto step = json("step.json");
  EXPECT_GT(step.at("peak_percent").get<double>(), 0);
  EXPECT_LT(step.at("peak_percent").get<double>(), 100);
  EXPECT_GT(step.at("floor_times").get<double>(), 1);
  ASSERT_EQ(run("bench strategies run.toml --per-device --strategies single,ddp --output bench" +
                options + "--max_steps 4 --threads 1 --per_device_train_batch_size 4"),
            0)
      << output_;
  expect("| fast link | train_runtime | steps/s | samples/s | epoch |");
  expect("| 1:single | -");
  expect("| 2:ddp    | yes");
  expect("| 2:ddp    | no");
  expect("101.9 s");
  expect("131.4 s");
  // Twice the devices see twice the samples, in as many steps.
  EXPECT_NEAR(json("bench/ddp-2/all_results.json").at("epoch").get<double>(),
              2 * json("bench/single-1/all_results.json").at("epoch").get<double>(), 0.02);
}

TEST_F(LanguageCommand, WhatAFolderHoldsAndLacksIsSaid) {
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny +
                "--max_steps 1 --output_dir out --max_shard_size 20KB"),
            0)
      << output_;
  EXPECT_TRUE(fs::exists(folder_ / "out/model.safetensors.index.json"));
  EXPECT_EQ(output_.find("warning"), std::string::npos) << output_;
  auto config = json("out/config.json");
  config["tie_word_embeddings"] = false;
  config["moon_phase"] = config["tide"] = 3;
  write_file(folder_ / "out/config.json", config.dump());
  const std::string keys =
      "warning: out/config.json has keys that mean nothing here, and are written back: "
      "moon_phase, tide\n";
  const std::string head = "warning: out holds no lm_head.weight: its values are drawn\n";
  ASSERT_EQ(run("eval out"), 0) << output_;
  expect(keys + head);
  ASSERT_EQ(
      run("train --model_name_or_path out --data.train text.txt --block_size 16 --max_steps 1 "
          "--output_dir more"),
      0)
      << output_;
  expect(keys + head);
  EXPECT_EQ(json("more/config.json").at("tide"), 3);
  EXPECT_FALSE(json("more/config.json").at("tie_word_embeddings").get<bool>());
  ASSERT_EQ(run("train --model_name_or_path out --family llama --data.train text.txt"), 1);
  expect("out/config.json describes a model of type \"gpt2\"; expected llama");
}

TEST_F(LanguageCommand, WhatDoesNotFitIsSaid) {
  const std::string base = std::string("train") + kGpt2;
  EXPECT_EQ(run("train --family gpt3 --data.train text.txt"), 2);
  expect("model family 'gpt3' is unknown; expected one of session, gpt2, llama");
  EXPECT_EQ(run(base + "--data.train text.txt"), 2);
  expect("is text, and there is no tokenizer for it");
  EXPECT_EQ(run(base + "--data.train text.txt --data.tokenizer words --block_size 64"), 2);
  expect("block_size = 64 is beyond the model's 32 positions");
  EXPECT_EQ(run(base + "--data.train text.txt --data.tokenizer words --vocab_size 10"), 2);
  expect("the tokenizer has 25 ids, the model's vocab_size is 10");
  EXPECT_EQ(run(base + "--data.train text.txt --data.tokenizer words --d_model 8"), 2);
  expect("unknown option --d_model");
  write_file(folder_ / "short.txt", "w1 w2\n");
  EXPECT_EQ(run(base + "--data.train short.txt --data.tokenizer words"), 2);
  expect("gives no block");
  EXPECT_EQ(run(base + "--n_head 3" + kTiny), 2);
  expect("n_head");
  EXPECT_EQ(run(base + kTiny + "--n_embd 100000 --n_layer 4000"), 2);
  expect("[train] 4,000 layers take 1");
  expect("the whole model with gradient and AdamW's moments");
  EXPECT_EQ(run(base + kTiny + "--n_positions 90000000 --n_embd 100000"), 2);
  expect("[train] 90,000,000 positions take");
  EXPECT_EQ(run(base + kTiny + "--max_shard_size 5pounds"), 2);
  expect("max_shard_size = 5pounds; expected a size such as 5GB");
}

}  // namespace
}  // namespace convoy
