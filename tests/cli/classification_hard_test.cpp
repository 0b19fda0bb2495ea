#include "tests/cli/classification_testing.h"

// Texts and folders that people have, and that a classifier must live with or refuse in plain
// words.
namespace convoy {
namespace {

class HardClassification : public ClassificationCommand {
 protected:
  /// A classifier in `out`.
  void train_one(const std::string& more = "") {
    ASSERT_EQ(run(std::string(kTask) + kTiny + "--data.valid valid.tsv --max_steps 1 --threads 1 " +
                  "--output_dir out " + more),
              0)
        << output_;
  }
};

TEST_F(HardClassification, TextsOfWhichNothingIsKnownAreTold) {
  write_file(folder_ / "train.csv", table(20, 0, ',') + "\U0001F600,1,positive,w1\n");
  train_one();
  expect("warning: text 21 of train.csv has only tokens that the tokenizer does not know: '");
  write_file(folder_ / "new.csv", "opinion\nzebra\nw1 good\n\x1b[31m yak\n\U0001F600\n");
  ASSERT_EQ(run("predict out --data new.csv --output labels.csv"), 0) << output_;
  expect("warning: 3 of the 4 texts of new.csv have only tokens that the tokenizer does not know,");
  expect("text 1: 'zebra'");
  expect("wrote labels.csv (4 rows)");
  ASSERT_EQ(run("predict out --data new.csv"), 0) << output_;
  expect("  \\x1b[31m yak\n");
  fs::create_directory(folder_ / "folder.csv");
  EXPECT_EQ(run("predict out --data new.csv --output folder.csv"), 2);
  expect("--output folder.csv is a folder; try another name");
}

TEST_F(HardClassification, APredictionThatIsStoppedLeavesNothing) {
  train_one();
  write_file(folder_ / "many.csv", table(20000, 0, ','));
  for (const std::string name : {"x.csv", "x.parquet"}) {
    EXPECT_EQ(shell("$convoy predict out --data many.csv --per_device_eval_batch_size 1 --output " +
                    name + " & for i in $(seq 1000); do ls ." + name +
                    ".*.tmp > /dev/null 2>&1 && break; sleep 0.01; done; kill -TERM $!; wait $!"),
              128 + SIGTERM)
        << output_;
    EXPECT_EQ(shell("ls -A | grep x[.]"), 1) << output_;
  }
}

TEST_F(HardClassification, TakesMissingConfigKeysFromTheRunsOptions) {
  train_one();
  auto config = json("out/config.json");
  config.erase("architectures");
  write_file(folder_ / "out/config.json", config.dump());
  EXPECT_EQ(run("eval out"), 0) << output_;
  for (const std::string cut : {"", "{\"model_type\": \"bert\", "}) {
    write_file(folder_ / "out/config.json", cut);
    EXPECT_EQ(run("eval out"), 1);
    expect("out/config.json is not valid JSON");
  }
  write_file(folder_ / "out/config.json", "[]");
  EXPECT_EQ(run("predict out"), 1);
  expect("out/config.json is no JSON object; expected the config of a model");
}

TEST_F(HardClassification, ShortHelpShowsItsOptions) {
  ASSERT_EQ(run("train --help --task classification"), 0) << output_;
  for (const char* option : {"--train, --train_file", "--text, ", "--text_pair ", "--label, ",
                             "--max_length, ", "--start, --model_name_or_path", "--task "}) {
    expect(option);
  }
}

TEST_F(HardClassification, RefusesOptionsThatAClassifierCannotHave) {
  const std::string base = std::string(kTask) + kTiny + "--max_steps 1 ";
  EXPECT_EQ(run(base + "--data.text_pair second --type_vocab_size 1"), 2);
  expect("text_pair = second needs type_vocab_size of at least 2; got 1");
  EXPECT_EQ(run(base + "--pad_token_id 99"), 2);
  expect("pad_token_id = 99, but the model's vocab_size is 19");
  train_one();
  EXPECT_EQ(run("train --model_name_or_path out --data.train train.csv --block_size 16"), 2);
  expect("--block_size: a classifier's texts are cut to max_length; hidden tokens: try --task ");
  auto config = json("out/config.json");
  config["id2label"] = {{"0", "same"}, {"1", "same"}};
  write_file(folder_ / "out/config.json", config.dump());
  EXPECT_EQ(run("predict out --output scores.jsonl"), 1);
  expect("out/config.json: id2label has 'same' twice; expected a name for each label");
}

}  // namespace
}  // namespace convoy
