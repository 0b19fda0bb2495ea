#include "tests/cli/classification_testing.h"

namespace convoy {
namespace {

class ClassificationPairs : public ClassificationCommand {
 protected:
  void SetUp() override {
    ClassificationCommand::SetUp();
    write_file(folder_ / "pairs.csv", pairs(120, 0));
    write_file(folder_ / "more.csv", pairs(30, 500));
  }

  /// The second text tells the label.
  static std::string pairs(int rows, int seed) {
    std::string out = "text,text_pair,label\n";
    for (int row = seed; row < seed + rows; ++row) {
      const bool good = row * 7 % 5 < 2;
      out += fmt::format("w{},{} w{},{}\n", row % 12, good ? "good" : "bad", row * 5 % 12,
                         good ? "yes" : "no");
    }
    return out;
  }

  static constexpr const char* kTrain =
      "train --task classification --data.train pairs.csv --data.valid more.csv --max_length 16"
      " --max_steps 60 ";
};

TEST_F(ClassificationPairs, AColumnTextPairIsRead) {
  ASSERT_EQ(run(std::string(kTrain) + kTiny + "--output_dir out"), 0) << output_;
  EXPECT_GT(last("out/eval_results.json", "eval_accuracy"), 0.95);
  EXPECT_NE(read_file(folder_ / "out/run.toml").find("text_pair = \"text_pair\""),
            std::string::npos);
  ASSERT_EQ(run("eval out --json > again.json"), 0) << output_;
  EXPECT_DOUBLE_EQ(last("again.json", "eval_loss"), last("out/eval_results.json", "eval_loss"));
  // A folder without a run.toml, as of transformers.
  fs::remove(folder_ / "out/run.toml");
  ASSERT_EQ(run("eval out --data more.csv --json > alone.json"), 0) << output_;
  EXPECT_NEAR(last("alone.json", "eval_loss"), last("again.json", "eval_loss"), 1e-6);
}

TEST_F(ClassificationPairs, WarnOfAPairColumnThatIsNotRead) {
  ASSERT_EQ(run(std::string(kTrain) + kTiny + "--text_pair none --output_dir out"), 0) << output_;
  expect(
      "warning: pairs.csv has a column text_pair, which is not read: the model is one of single");
  EXPECT_LT(last("out/eval_results.json", "eval_accuracy"), 0.95);
  ASSERT_EQ(run("eval out --data more.csv"), 0) << output_;
  expect("warning: more.csv has a column text_pair, which is not read");
  ASSERT_EQ(run("predict out --data more.csv --output labels.csv"), 0) << output_;
  expect("warning: more.csv has a column text_pair, which is not read");
}

TEST_F(ClassificationPairs, OptionsOfAnotherTaskAreNotBlamedOnTheFamily) {
  EXPECT_EQ(run(std::string(kTrain) + kTiny + "--validation_split_percentage 5"), 2);
  expect("unknown option --validation_split_percentage, which is of model.task = language");
  write_file(folder_ / "text.txt", "w1 w2\n");
  EXPECT_EQ(run("train --model_type bert --data.train text.txt --text_pair second"), 2);
  expect("unknown option --text_pair, which is of model.task = classification");
  EXPECT_EQ(run("train --model_type gpt2 --data.train text.txt --text_pair second"), 2);
  expect("unknown option --text_pair, which is of model.family = bert");
  ASSERT_EQ(run(std::string(kTrain) + kTiny + "--do_train --do_eval false --output_dir out"), 0)
      << output_;
  EXPECT_FALSE(fs::exists(folder_ / "out/eval_results.json"));
}

}  // namespace
}  // namespace convoy
