#include "tests/cli/chat_testing.h"
#include "tests/cli/language_testing.h"

// Training data from several sources by weights.
namespace convoy {
namespace {

class MixtureCommand : public LanguageCommand {
 protected:
  void SetUp() override {
    LanguageCommand::SetUp();
    ASSERT_EQ(shell("mkdir -p more && head -n 60 text.txt > a.txt && tail -n 40 text.txt > "
                    "more/b.txt && head -n 30 text.txt > more/c.txt"),
              0);
  }

  static constexpr const char* kTrain =
      "train --family gpt2 --n_embd 16 --n_layer 2 --n_head 2 --n_positions 32 "
      "--data.tokenizer words --block_size 16 --learning_rate 1e-2 --logging_steps 1 --threads 1 ";
  static constexpr const char* kMixed =
      "--mixture 'a.txt=0.6,more/*.txt=0.4' --per_device_train_batch_size 2 ";
};

TEST_F(MixtureCommand, TrainsOnEachSourceByItsWeight) {
  ASSERT_EQ(run(std::string(kTrain) + kMixed + "--max_steps 12 --output_dir one"), 0) << output_;
  expect("mixture: ");
  expect("a.txt gives ");
  expect("more/*.txt gives ");
  EXPECT_GT(last("one/eval_results.json", "eval_loss"), 0) << "of what each file held out";
  ASSERT_EQ(run("eval one --json > again.json"), 0) << output_;
  EXPECT_DOUBLE_EQ(last("again.json", "eval_loss"), last("one/eval_results.json", "eval_loss"));
  // Two ranks train on the same rows.
  ASSERT_EQ(run(std::string(kTrain) +
                "--mixture 'a.txt=0.6,more/*.txt=0.4' --per_device_train_batch_size 1 --nproc 2 "
                "--max_steps 12 --output_dir two"),
            0)
      << output_;
  EXPECT_NEAR(last("two/eval_results.json", "eval_loss"),
              last("one/eval_results.json", "eval_loss"), 1e-5);
}

TEST_F(MixtureCommand, ResumesWithTheSameRows) {
  const std::string train = std::string(kTrain) + kMixed +
                            "--save_strategy steps --save_steps 7 --lr_scheduler_type constant "
                            "--mixture_stop all_exhausted ";
  ASSERT_EQ(run(train + "--max_steps 60 --output_dir whole"), 0) << output_;
  ASSERT_EQ(run(train + "--max_steps 35 --output_dir half"), 0) << output_;
  const std::string more = "--output_dir half --resume_from_checkpoint latest --max_steps 60 ";
  ASSERT_EQ(run(train + more), 0) << output_;
  EXPECT_EQ(read_file(folder_ / "half/model.safetensors"),
            read_file(folder_ / "whole/model.safetensors"));
  // A source of as many rows with other words.
  ASSERT_EQ(shell("sed -i 's/w1 /w2 /' more/b.txt"), 0);
  EXPECT_NE(run(train + "--output_dir half --max_steps 70 --resume_from_checkpoint "
                        "half/checkpoint-35"),
            0);
  expect("its order of samples (one permutation of all rows of a mixture of ");
}

TEST_F(MixtureCommand, SaysWhatIsWrong) {
  const auto fails = [&](const std::string& options, const std::string& message, int code = 2) {
    EXPECT_EQ(run(kTrain + options + " --max_steps 1 --output_dir out"), code) << output_;
    expect(message);
  };
  fails("--mixture a.txt",
        "mixture = a.txt has no weight; expected FILE=WEIGHT, such as a.txt=0.7");
  fails("--mixture a.txt=x", "mixture = a.txt=x has the weight 'x'; expected a number above 0");
  fails("--mixture a.txt=-1", "a.txt has the weight -1 in the mixture");
  fails("--mixture 'none*.txt=1'", "no file fits none*.txt in the mixture", 1);
  fails("--mixture a.txt=1,a.txt=2", "the mixture names a.txt twice");
  fails("--mixture a.txt=1 --data.train a.txt", "try a.txt=WEIGHT as a part of the mixture");
  fails("--mixture a.txt=1 --max_train_samples 3", "max_train_samples has no effect on a mixture");
  fails("--data.train a.txt --mixture_stop all_exhausted",
        "data.mixture_stop = all_exhausted has no effect without data.mixture");
}

class ChatMixtureCommand : public ChatCommand {
 protected:
  void SetUp() override {
    ChatCommand::SetUp();
    std::string lines;
    for (int i = 0; i < 40; ++i) {
      const std::string asked = i % 4 == 0 ? "Hi Hi" : "Hi";
      lines += conversation({{"user", asked}, {"assistant", i % 3 == 0 ? "Hello Otto" : "Hello"}});
    }
    write_file(folder_ / "other.jsonl", lines);
  }

  std::string train(const std::string& more) const {
    std::string common = kLlama;
    const std::string data = "--data.train chat.jsonl ";
    const auto at = common.find(data);
    if (at != common.npos) common.erase(at, data.size());
    return common + "--mixture chat.jsonl=1,other.jsonl=3 --max_length 120 " + more;
  }
};

TEST_F(ChatMixtureCommand, TrainsOnConversationsByWeightPackedOrNot) {
  ASSERT_EQ(run(train("--max_steps 3 --output_dir plain")), 0) << output_;
  expect("mixture: 53 rows an epoch; chat.jsonl gives 13 (24.5 %)");
  expect("other.jsonl gives 40 (75.5 %), 1.00 times its 40");
  const std::string steps = "--packing true --max_steps 6 --validation_split_percentage 10 ";
  ASSERT_EQ(run(train(steps + "--per_device_train_batch_size 2 --output_dir one")), 0) << output_;
  expect("packed: ");
  expect("mixture: ");
  ASSERT_EQ(run(train(steps + "--per_device_train_batch_size 1 --nproc 2 --output_dir two")), 0)
      << output_;
  const auto one = losses("one"), two = losses("two");
  ASSERT_EQ(one.size(), two.size());
  for (size_t step = 0; step < one.size(); ++step) EXPECT_NEAR(two[step] / one[step], 1, 1e-5);
  ASSERT_EQ(run("eval one --json > again.json"), 0) << output_;
  EXPECT_NEAR(json("again.json").at("eval_loss").get<double>(),
              json("one/eval_results.json").at("eval_loss").get<double>(), 1e-9);
}

}  // namespace
}  // namespace convoy
