#include "tests/cli/language_testing.h"

// Several texts in a block, of which none sees another.
namespace convoy {
namespace {

class DocumentsApart : public LanguageCommand {
 protected:
  /// Writes texts of as many words as `length` says, of a ring.
  void write_texts(const std::string& file, const std::function<int(int)>& length) {
    std::string texts;
    for (int i = 0; i < 300; ++i) {
      std::string text;
      for (int word = 0; word < length(i); ++word) {
        text += (word > 0 ? " w" : "w") + std::to_string((i * 5 + word) % 8);
      }
      texts += Json{{"text", text}}.dump() + "\n";
    }
    write_file(folder_ / file, texts);
  }

  static std::string train(const std::string& more) {
    return std::string("train") + kLlama +
           "--data.train texts.jsonl --data.tokenizer words --block_size 16 --learning_rate 1e-2 "
           "--logging_steps 1 --threads 1 --validation_split_percentage 0 "
           "--per_device_train_batch_size 4 --documents apart " +
           more;
  }

  double evaluated(const std::string& more) {
    EXPECT_EQ(shell("$convoy eval out --data.valid texts.jsonl --threads 1 --json " + more +
                    " > found.json"),
              0)
        << output_;
    return json("found.json")["eval_loss"].get<double>();
  }
};

TEST_F(DocumentsApart, HaveTheLossOfATextARow) {
  write_texts("texts.jsonl", [](int) { return 6; });
  ASSERT_EQ(run(train("--max_steps 8 --output_dir out")), 0) << output_;
  expect("documents = apart: 300 texts of 8 tokens on average, none of which sees another");
  const double apart = evaluated("");
  EXPECT_NEAR(evaluated("--block_size 8 --documents together") / apart, 1, 1e-6);
  EXPECT_GT(std::abs(evaluated("--documents together") / apart - 1), 1e-3);
  EXPECT_NEAR(evaluated("--nproc 2") / apart, 1, 1e-6);
}

TEST_F(DocumentsApart, HaveTheSameLossesInEveryLayout) {
  write_texts("texts.jsonl", [](int i) { return 2 + i * 7 % 23; });
  const auto run_as = [&](const char* out, const std::string& more) {
    ASSERT_EQ(run(train("--max_steps 4 --output_dir " + std::string(out) + " " + more)), 0)
        << output_;
  };
  run_as("one", "");
  run_as("zero", "--nproc 2 --zero 3 --per_device_train_batch_size 2");
  run_as("stages",
         "--nproc 2 --pipeline_parallel_size 2 --gradient_accumulation_steps 2 "
         "--per_device_train_batch_size 2");
  run_as("tokens", "--nproc 2 --tensor_parallel_size 2 --sequence_parallel true");
  for (const char* out : {"zero", "stages", "tokens"}) {
    SCOPED_TRACE(out);
    expect_near(losses("one"), losses(out));
  }
}

TEST_F(DocumentsApart, AreRefusedWhereTheyCannotBe) {
  write_texts("texts.jsonl", [](int) { return 6; });
  EXPECT_EQ(run(train("--max_steps 1 --output_dir out --nproc 2 --context_parallel_size 2")), 2);
  expect("documents = apart does not go with context_parallel_size = 2");
  EXPECT_EQ(run(std::string("train") + kLlama +
                "--random_tokens 2000 --documents apart --max_steps 1 --output_dir out"),
            2)
      << output_;
  expect("documents = apart has no effect: random_tokens = 2000 are one text");
  ASSERT_EQ(run(train("--max_steps 4 --save_steps 2 --output_dir out")), 0) << output_;
  EXPECT_EQ(run(train("--max_steps 4 --output_dir on --resume_from_checkpoint out/checkpoint-2 "
                      "--documents together")),
            2)
      << output_;
  expect(", documents apart");
}

}  // namespace
}  // namespace convoy
