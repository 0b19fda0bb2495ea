#include "tests/cli/language_testing.h"
#include "tests/data/parquet_testing.h"

// Tokens that a language model is trained on: from a tokenizer, from files of ids, at random.
namespace convoy {
namespace {

TEST_F(LanguageCommand, TokensInAFileGiveTheSameRun) {
  const std::string base = std::string("train") + kGpt2 + kTiny + "--max_steps 8 ";
  ASSERT_EQ(run(base + "--output_dir memory"), 0) << output_;
  ASSERT_EQ(run(base + "--output_dir file --memory_budget_mb 0"), 0) << output_;
  EXPECT_EQ(read_file(folder_ / "memory/model.safetensors"),
            read_file(folder_ / "file/model.safetensors"));
  ASSERT_EQ(shell("TMPDIR=nowhere $convoy " + base + "--memory_budget_mb 0"), 1);
  expect("cannot keep tokens in nowhere");
}

TEST_F(LanguageCommand, IdsBringTheirVocabulary) {
  ASSERT_EQ(run("data tokenize text.txt --tokenizer words --output ids.parquet"), 0) << output_;
  const std::string train =
      std::string("train") + kGpt2 + "--data.train ids.parquet --block_size 16 --max_steps 1 ";
  ASSERT_EQ(run(train + "--output_dir out"), 0) << output_;
  EXPECT_EQ(json("out/config.json").at("vocab_size"), 25);
  ASSERT_EQ(run("eval out --data ids.parquet"), 0) << output_;
  ASSERT_EQ(shell("mkdir other; (head -5 words/vocab.txt; tail -n +6 words/vocab.txt | tac) > "
                  "other/vocab.txt; $convoy data tokenize text.txt --tokenizer other --output "
                  "other.parquet"),
            0)
      << output_;
  const std::string refused = "other.parquet is of another tokenizer (";
  EXPECT_EQ(run("eval out --data other.parquet"), 2);
  expect(refused);
  EXPECT_EQ(run(train + "--data.valid other.parquet"), 2);
  expect(refused);
  EXPECT_EQ(run(train + "--data.train other.parquet --max_steps 2 --output_dir out "
                        "--resume_from_checkpoint latest"),
            2);
  expect("out/checkpoint-1 was trained with the tokenizer ");
  EXPECT_EQ(run("train out/run.toml --data.train other.parquet --output_dir again"), 0) << output_;
  ASSERT_EQ(run(train + "--vocab_size 40 --output_dir wide"), 0) << output_;
  EXPECT_EQ(json("wide/config.json").at("vocab_size"), 40);
  ASSERT_EQ(run(train + "--vocab_size 24"), 2);
  expect("ids.parquet is of a tokenizer with 25 ids, the model's vocab_size is 24");
}

/// As `datasets` writes what a tokenizer of its own gave.
TEST_F(LanguageCommand, IdsOfOtherToolsNeedAVocabulary) {
  std::vector<std::vector<int64_t>> rows;
  for (int64_t row = 0; row < 60; ++row) {
    rows.emplace_back();
    for (int64_t i = 0; i < 16; ++i) rows.back().push_back(5 + (7 * row + 3 * i) % 20);
  }
  data::testing::write_parquet(folder_ / "ids.parquet",
                               {{"input_ids", data::testing::int_lists(rows)}});
  data::testing::write_parquet(folder_ / "named.parquet",
                               {{"tokens", data::testing::int_lists(rows)}});
  const std::string train = std::string("train") + kGpt2 + "--block_size 16 --max_steps 1 ";
  EXPECT_EQ(run(train + "--train_file ids.parquet --output_dir never"), 2);
  expect(
      "ids.parquet holds ids, but does not say how many ids their tokenizer has; try "
      "--vocab_size N, or --data.tokenizer FOLDER");
  EXPECT_FALSE(fs::exists(folder_ / "never"));
  ASSERT_EQ(run(train + "--train_file ids.parquet --vocab_size 25 --output_dir out"), 0) << output_;
  expect("ids.parquet does not say which tokenizer made its ids");
  ASSERT_EQ(run("eval out --data ids.parquet"), 0) << output_;
  ASSERT_EQ(run(train + "--train_file named.parquet --column tokens --tokenizer_name words "
                        "--output_dir named"),
            0)
      << output_;
  EXPECT_EQ(json("named/config.json").at("vocab_size"), 25);
  EXPECT_EQ(read_file(folder_ / "named/model.safetensors"),
            read_file(folder_ / "out/model.safetensors"));
  EXPECT_EQ(run(train + "--train_file ids.parquet --vocab_size 20"), 2);
  expect("ids.parquet holds the token 2");
  ASSERT_EQ(run("train --model_name_or_path out --train_file ids.parquet --block_size 16 "
                "--max_steps 1 --output_dir further"),
            0)
      << output_;
}

TEST_F(LanguageCommand, RandomTokensGiveNoMoreBlocksThanAskedFor) {
  const std::string train = std::string("train") + kGpt2 +
                            "--vocab_size 25 --block_size 16 --random_tokens 1600 "
                            "--per_device_train_batch_size 4 --num_train_epochs 1 ";
  ASSERT_EQ(run(train + "--max_train_samples 8 --output_dir few"), 0) << output_;
  EXPECT_EQ(json("few/trainer_state.json").at("global_step"), 2);
  ASSERT_EQ(run(train + "--output_dir all"), 0) << output_;
  EXPECT_EQ(json("all/trainer_state.json").at("global_step"), 25);
  // None of which is for an evaluation.
  EXPECT_EQ(run(train + "--max_eval_samples 8"), 2);
  expect("max_eval_samples = 8 is without effect: there is no evaluation data");
}

/// A run keeps a tokenizer under a name that eval, generate and transformers look for.
TEST_F(LanguageCommand, ATokenizerOfAnotherNameIsFoundAgain) {
  ASSERT_EQ(shell("mv words/vocab.txt words/my-words.txt"), 0);
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny +
                "--data.tokenizer words/my-words.txt --max_steps 1 --output_dir out"),
            0)
      << output_;
  EXPECT_TRUE(fs::exists(folder_ / "out/vocab.txt"));
  EXPECT_FALSE(fs::exists(folder_ / "out/my-words.txt"));
  fs::remove_all(folder_ / "words");
  EXPECT_EQ(run("generate out --prompt 'w1 w4' --max-new-tokens 1"), 0) << output_;
}

// Those of the family are of its usual tokenizer, and may be any word of this one, or none.
TEST_F(LanguageCommand, SpecialIdsAreTheTokenizers) {
  for (const char* family : {kGpt2, kLlama}) {
    const auto train =
        std::string("train") + family + kTiny + "--max_steps 1 --overwrite_output_dir ";
    ASSERT_EQ(run(train + "--output_dir out"), 0) << output_;
    const auto config = json("out/config.json");
    EXPECT_TRUE(config.at("bos_token_id").is_null() && config.at("eos_token_id").is_null())
        << config;
    ASSERT_EQ(run(train + "--output_dir out --eos_token_id 7"), 0) << output_;
    EXPECT_EQ(json("out/config.json").at("eos_token_id"), 7) << "what was typed holds";
  }
}

TEST_F(LanguageCommand, BytesThatAreNotUtf8AreTold) {
  const std::string train = std::string("train") + kGpt2 + kTiny + "--max_steps 1 ";
  ASSERT_EQ(shell("printf 'w1 \\377 w2\\n\\376 w3\\n' >> text.txt; $convoy " + train +
                  "--output_dir out --nproc 2"),
            0)
      << output_;
  expect("warning: 2 places of text.txt are not UTF-8 and became U+FFFD\n");
  EXPECT_EQ(output_.find("U+FFFD"), output_.rfind("U+FFFD")) << "one rank says it: " << output_;
  ASSERT_EQ(shell("head -20 text.txt > valid.txt; printf '\\377' >> valid.txt; $convoy " + train +
                  "--data.train valid.txt --data.valid valid.txt "
                  "--block_size 8 --output_dir more; $convoy eval more"),
            0)
      << output_;
  EXPECT_EQ(output_.find("has no effect"), std::string::npos) << "nobody asked: " << output_;
  expect("warning: 1 place of valid.txt is not UTF-8 and became U+FFFD\n");
  expect("/valid.txt is not UTF-8 and became U+FFFD\n");
  ASSERT_EQ(run(train + "--data.valid valid.txt --validation_split_percentage 5 --output_dir out " +
                "--overwrite_output_dir"),
            0)
      << output_;
  expect("validation_split_percentage = 5 has no effect beside ");
}

}  // namespace
}  // namespace convoy
