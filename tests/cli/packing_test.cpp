#include "tests/cli/chat_testing.h"

// Several conversations in a row.
namespace convoy {
namespace {

class PackingCommand : public ChatCommand {
 protected:
  void SetUp() override {
    ChatCommand::SetUp();
    std::string lines;
    for (int i = 0; i < 60; ++i) {
      std::string asked = "Hi", answer = "Otto";
      for (int more = 0; more < i * 7 % 5; ++more) asked += " Hi";
      for (int more = 0; more < i % 3; ++more) answer += " Hello";
      lines += conversation({{"user", asked}, {"assistant", answer}});
    }
    write_file(folder_ / "chat.jsonl", lines);
  }

  static std::string train(const std::string& more) {
    return std::string(kLlama) + "--max_length 120 --packing true " + more;
  }

  double evaluated(const std::string& more) {
    EXPECT_EQ(shell("$convoy eval out --data.valid chat.jsonl --threads 1 --json " + more +
                    " > found.json"),
              0)
        << output_;
    return parse_json(read_file(folder_ / "found.json"), "found.json")["eval_loss"].get<double>();
  }
};

TEST_F(PackingCommand, GivesTheLossOfAConversationARow) {
  ASSERT_EQ(run(train("--max_steps 3 --output_dir out")), 0) << output_;
  expect("packed: 60 conversations in ");
  expect(" of at most 120 tokens, 9");
  const double packed = evaluated("--packing true"), alone = evaluated("--packing false");
  EXPECT_NEAR(packed / alone, 1, 1e-6);
  EXPECT_NEAR(evaluated("--nproc 2") / packed, 1, 1e-6);
  // In training, too: all conversations are one step.
  for (const char* kind : {"true", "false"}) {
    ASSERT_EQ(run(std::string(kLlama) + "--max_length 120 --max_steps 2 --global_batch_size 60 " +
                  "--per_device_train_batch_size 60 --output_dir " + kind + " --packing " + kind),
              0)
        << output_;
  }
  expect_near(losses("false"), losses("true"));
}

TEST_F(PackingCommand, GivesTheSameLossesInEveryLayout) {
  const auto run_as = [&](const char* out, const std::string& more) {
    ASSERT_EQ(run(train("--max_steps 4 --output_dir " + std::string(out) + " " + more)), 0)
        << output_;
  };
  run_as("one", "--per_device_train_batch_size 4");
  run_as("data", "--nproc 2 --per_device_train_batch_size 2");
  run_as("zero", "--nproc 2 --zero 3 --per_device_train_batch_size 2");
  run_as("threads", "--replicas 2 --per_device_train_batch_size 2");
  run_as("parts", "--gradient_accumulation_steps 2 --per_device_train_batch_size 2");
  run_as("again", "--gradient_checkpointing true");
  run_as("stages",
         "--nproc 2 --pipeline_parallel_size 2 --gradient_accumulation_steps 2 "
         "--per_device_train_batch_size 2");
  run_as("heads", "--nproc 2 --tensor_parallel_size 2");
  run_as("tokens", "--nproc 2 --tensor_parallel_size 2 --sequence_parallel true");
  const auto expected = losses("one");
  ASSERT_EQ(expected.size(), 4u);
  for (const char* out :
       {"data", "zero", "threads", "parts", "again", "stages", "heads", "tokens"}) {
    SCOPED_TRACE(out);
    expect_near(expected, losses(out));
  }
}

TEST_F(PackingCommand, RefusesContextRanksBeforeItTrains) {
  EXPECT_EQ(run(train("--max_steps 1 --output_dir out --nproc 2 --context_parallel_size 2")), 2)
      << output_;
  expect("packing = true does not go with context_parallel_size = 2");
  expect("try --context_parallel_size 1, or --packing false");
  EXPECT_FALSE(fs::exists(folder_ / "out/model.safetensors"));
  // Nor does evaluation share out such rows.
  ASSERT_EQ(run(train("--max_steps 1 --output_dir out")), 0) << output_;
  EXPECT_EQ(run("eval out --data.valid chat.jsonl --nproc 2 --context_parallel_size 2"), 2)
      << output_;
  expect("context_parallel_size = 2");
}

TEST_F(PackingCommand, ResumesAsIfNothingHadHappened) {
  const std::string asked = train("--save_steps 3 --max_steps 6 ");
  ASSERT_EQ(run(asked + "--output_dir whole"), 0) << output_;
  const std::string resumed =
      asked + "--output_dir again --resume_from_checkpoint whole/checkpoint-3 ";
  EXPECT_EQ(run(resumed + "--packing false"), 2) << output_;
  ASSERT_EQ(run(resumed), 0) << output_;
  const auto whole = losses("whole"), again = losses("again");
  ASSERT_EQ(again.size(), 3u);
  EXPECT_TRUE(std::equal(again.begin(), again.end(), whole.begin() + 3));
}

TEST_F(PackingCommand, TakesAdaptersAndOtherFamilies) {
  ASSERT_EQ(run(train("--max_steps 2 --output_dir base")), 0) << output_;
  ASSERT_EQ(run("train --task chat --model_name_or_path base --data.train chat.jsonl --max_steps 2 "
                "--max_length 120 --packing true --threads 1 --validation_split_percentage 50 "
                "--lora_r 2 --lora_dropout 0.1 --output_dir out"),
            0)
      << output_;
  EXPECT_NEAR(evaluated("--packing true") / evaluated("--packing false"), 1, 1e-6);
  fs::remove_all(folder_ / "out");
  const std::string gpt2 =
      "train --task chat --model_type gpt2 --n_embd 32 --n_layer 2 --n_head 4 --n_positions 128 "
      "--data.tokenizer words --data.train chat.jsonl --logging_steps 1 --threads 1 "
      "--validation_split_percentage 20 --per_device_train_batch_size 4 --max_steps 2 "
      "--packing true --output_dir ";
  ASSERT_EQ(run(gpt2 + "out"), 0) << output_;
  expect("packed: 48 conversations in ");
  expect("packed: 12 conversations in ");
  EXPECT_NEAR(evaluated("--packing true") / evaluated("--packing false"), 1, 1e-6);
}

TEST_F(PackingCommand, IsVerified) {
  write_file(folder_ / "run.toml", "");
  const auto asked = "verify run.toml " + train("--steps 2 --nproc 2 ").substr(5);
  ASSERT_EQ(run(asked), 0) << output_;
  expect("holds");
}

}  // namespace
}  // namespace convoy
