#include "tests/cli/chat_testing.h"

// A person trains a model on conversations, and chats with it.
namespace convoy {
namespace {

TEST_F(ChatCommand, LearnsAnAnswerAndGivesIt) {
  write_file(folder_ / "chat.jsonl",
             conversation({{"user", "Who are you?"}, {"assistant", "I am Otto."}}) +
                 conversation({{"user", "Hi"}, {"assistant", "Hello"}}) +
                 conversation({{"user", "Who are you?"},
                               {"assistant", "I am Otto."},
                               {"user", "Hi"},
                               {"assistant", "Hello again"}}));
  ASSERT_EQ(run(std::string(kLlama) + "--output_dir out --max_steps 120 --learning_rate 1e-2"), 0)
      << output_;
  expect("chat.jsonl: 3 conversations of ");
  expect(
      "example, what is learnt in [[ ]]: <|im_start|>user\\nWho are you?<|im_end|>\\n"
      "<|im_start|>assistant\\n[[I am Otto.<|im_end|>]]\\n");
  EXPECT_EQ(read_file(folder_ / "out/chat_template.jinja"),
            read_file(folder_ / "words/chat_template.jinja"));
  // A conversation, and another one that does not know of it.
  const std::string asked =
      " printf 'Who are you?\\nHi\\n/new\\nHi\\n' | $convoy generate out --chat 2>/dev/null";
  ASSERT_EQ(shell(asked), 0) << output_;
  EXPECT_EQ(output_, "I am Otto.\nHello again\nHello\n");
  const auto with_cache = output_;
  ASSERT_EQ(shell(asked + " --no-cache"), 0) << output_;
  EXPECT_EQ(output_, with_cache);
  // The run knows its data.
  ASSERT_EQ(run("eval out --data.valid chat.jsonl --threads 1"), 0) << output_;
  expect("perplexity");
  EXPECT_FALSE(says("warning")) << output_;
  ASSERT_EQ(run("eval out --data.valid chat.jsonl --threads 1 --max_length 60"), 0) << output_;
  expect("the run had max_length = 128, and this evaluation has 60: longer conversations are ");
  EXPECT_EQ(run("eval out --data.valid chat.jsonl --threads 1 --max_length 300"), 2) << output_;
  expect("max_length = 300 is beyond the model's 128 positions");
}

TEST_F(ChatCommand, GivesTheSameLossesInEveryLayout) {
  const auto train = [&](const char* out, const std::string& more) {
    ASSERT_EQ(run(std::string(kLlama) + "--max_steps 4 --output_dir " + out + " " + more), 0)
        << output_;
  };
  train("one", "--per_device_train_batch_size 8");
  train("data", "--nproc 2");
  train("zero", "--nproc 2 --zero 3");
  train("parts", "--gradient_accumulation_steps 2");
  train("stages", "--nproc 2 --pipeline_parallel_size 2 --gradient_accumulation_steps 2");
  train("heads", "--nproc 2 --tensor_parallel_size 2 --per_device_train_batch_size 8");
  train("rows", "--nproc 2 --context_parallel_size 2 --per_device_train_batch_size 8");
  const auto expected = losses("one");
  ASSERT_EQ(expected.size(), 4u);
  for (const char* out : {"data", "zero", "parts", "stages", "heads", "rows"}) {
    SCOPED_TRACE(out);
    expect_near(expected, losses(out), 1e-5);
  }
}

TEST_F(ChatCommand, ReadsTheSameRowsHoweverTheyArePadded) {
  const auto train = [&](const char* out, const std::string& more) {
    ASSERT_EQ(run(std::string(kLlama) + "--max_steps 3 --save_strategy no --output_dir " + out +
                  " " + more),
              0)
        << output_;
  };
  train("one", "");
  train("halves", "--per_device_train_batch_size 2 --gradient_accumulation_steps 2");
  train("ranks", "--per_device_train_batch_size 1 --gradient_accumulation_steps 2 --nproc 2");
  for (const char* other : {"halves", "ranks"}) {
    EXPECT_EQ(run(std::string("compare one ") + other), 0) << output_;
    expect("The runs read the same rows");
  }
  train("others", "--data_seed 5");
  EXPECT_EQ(run("compare one others"), 1) << output_;
  expect("The runs read other rows");
}

TEST_F(ChatCommand, IsVerified) {
  write_file(folder_ / "run.toml", "");
  const auto verify = "verify run.toml " + std::string(kLlama).substr(std::string("train").size()) +
                      "--steps 2 --nproc 2 ";
  ASSERT_EQ(run(verify), 0) << output_;
  expect("holds");
  EXPECT_EQ(shell("CONVOY_FAULT=double@1:backward:1 $convoy " + verify), 1) << output_;
  expect("BROKEN");
}

TEST_F(ChatCommand, ResumesAsIfNothingHadHappened) {
  const std::string train = std::string(kLlama) + "--save_steps 3 --max_steps 6 ";
  ASSERT_EQ(run(train + "--output_dir whole"), 0) << output_;
  const std::string resumed = train +
                              "--output_dir again --resume_from_checkpoint "
                              "whole/checkpoint-3 ";
  EXPECT_EQ(run(resumed + "--train_on all"), 2) << output_;
  EXPECT_EQ(run(resumed + "--max_length 60 --too_long leave_out"), 2) << output_;
  ASSERT_EQ(run(resumed), 0) << output_;
  const auto whole = losses("whole"), again = losses("again");
  ASSERT_EQ(again.size(), 3u);
  EXPECT_TRUE(std::equal(again.begin(), again.end(), whole.begin() + 3));
}

TEST_F(ChatCommand, KeepsTheDayOfTheRunsStart) {
  write_file(folder_ / "dated.jinja",
             "{{ strftime_now('%Y-%m-%d') }}{% for m in messages %}<|im_start|>{{ m.role }}\n"
             "{{ m.content }}<|im_end|>\n{% endfor %}"
             "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}");
  const std::string train =
      std::string(kLlama) + "--chat_template dated.jinja --output_dir out --save_steps 2 ";
  ASSERT_EQ(run(train + "--max_steps 2 --template_date 2020-02-03"), 0) << output_;
  expect("]]: 2020-02-03<|im_start|>");
  EXPECT_EQ(read_file(folder_ / "out/chat_template.jinja"), read_file(folder_ / "dated.jinja"));
  ASSERT_EQ(run(train + "--max_steps 3 --resume_from_checkpoint out/checkpoint-2"), 0) << output_;
  expect("]]: 2020-02-03<|im_start|>");
}

TEST_F(ChatCommand, TrainsOnAllAndCutsWhatIsTooLong) {
  const std::string train = std::string(kLlama) + "--max_steps 1 --output_dir ";
  ASSERT_EQ(run(train + "all --train_on all"), 0) << output_;
  expect("]]: <|im_start|>[[user\\nWho are you?");
  ASSERT_EQ(run(train + "short --train_on all --max_length 16"), 0) << output_;
  expect("cut at 16 tokens");
  EXPECT_EQ(run(train + "none --max_length 8"), 2) << output_;
  expect("without anything to learn, such as ");
  expect("chat.jsonl:1: no answer of the assistant within max_length = 8");
  EXPECT_NE(run(train + "none --max_length 8 --too_long leave_out"), 0) << output_;
  expect("holds no conversation of at most max_length tokens");
  EXPECT_EQ(run(train + "none --max_length 300"), 2) << output_;
  expect("max_length = 300 is beyond the model's 128 positions");
}

TEST_F(ChatCommand, SaysInASentenceWhatIsWrongWithConversations) {
  const std::string train = std::string(kLlama) + "--max_steps 1 --output_dir out ";
  const auto good = read_file(folder_ / "chat.jsonl");
  const auto refuses = [&](const std::string& lines, const std::string& sentence, int code) {
    write_file(folder_ / "chat.jsonl", lines);
    EXPECT_EQ(run(train), code) << output_;
    expect(sentence);
  };
  refuses(good + "{\"messages\": [\n", "chat.jsonl:25 is not valid JSON", 1);
  ASSERT_EQ(run(train + "--skip_corrupt true"), 0) << output_;
  expect("1 left out as corrupt, such as: ");
  refuses(good + "{\"text\": \"no chat\"}\n", "chat.jsonl:25 has no messages", 1);
  refuses(conversation({{"user", "Hi"}}),
          "1 of 1 conversation in chat.jsonl without anything to learn", 2);
  refuses("", "holds no conversation", 1);
  write_file(folder_ / "chat.jsonl", good);
  write_file(folder_ / "raises.jinja", "{{ raise_exception('roles must alternate') }}");
  EXPECT_EQ(run(train + "--chat_template raises.jinja"), 2) << output_;
  expect("chat.jsonl:1: ");
  expect("roles must alternate; try to mend it, or --skip_corrupt true");
  EXPECT_EQ(run(train + "--chat_template raises.jinja --skip_corrupt true"), 1) << output_;
  expect("chat.jsonl holds no conversation; 24 left out as corrupt, such as: chat.jsonl:1: ");
  write_file(folder_ / "broken.jinja", "{% for %}");
  EXPECT_EQ(run(train + "--chat_template broken.jinja"), 1) << output_;
  expect("broken.jinja:1: ");
  for (const char* best : {"", "--load_best_model_at_end "}) {
    EXPECT_EQ(run(train + "--metric_for_best_model loss " + best), 2) << output_;
    expect("metric_for_best_model = loss needs evaluation data; got none; try --data.valid FILE");
  }
  fs::remove(folder_ / "words/chat_template.jinja");
  EXPECT_EQ(run(train), 2) << output_;
  expect("the model has no chat template for them; try --chat_template FILE");
  EXPECT_EQ(run(std::string(kLlama) + "--model_type bert --output_dir out"), 2) << output_;
}

TEST_F(ChatCommand, TextsThatNothingEndsAreTold) {
  const std::string train = std::string(kLlama) + "--max_steps 1 ";
  const std::string no_end = "the tokenizer names no token that ends texts, so nothing ends the ";
  write_file(folder_ / "chat.jsonl", "{\"prompt\": \"say it\", \"completion\": \" low\"}\n");
  ASSERT_EQ(run(train), 0) << output_;
  EXPECT_FALSE(says(no_end)) << output_;
  write_file(folder_ / "words/tokenizer_config.json", R"({"bos_token": "<s>"})");
  ASSERT_EQ(run(train), 0) << output_;
  expect(no_end + "answers of rows of texts, such as chat.jsonl:1,");
}

TEST_F(ChatCommand, LeavesOutWhatTheTemplateRefuses) {
  write_file(folder_ / "strict.jinja",
             "{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}"
             "{{ raise_exception('no role ' + m.role) }}{% endif %}{% endfor %}" +
                 read_file(folder_ / "words/chat_template.jinja"));
  write_file(folder_ / "chat.jsonl",
             read_file(folder_ / "chat.jsonl") +
                 conversation({{"critic", "Who are you?"}, {"assistant", "I am Otto."}}) +
                 "{\"messages\": [{\"role\": 3, \"content\": \"Hi\"}]}\n"
                 "{\"messages\": [{\"role\": \"user\", \"content\": 7}, "
                 "{\"role\": \"assistant\", \"content\": \"x\"}], \"tools\": 3}\n");
  const std::string train =
      std::string(kLlama) + "--max_steps 1 --output_dir out --chat_template strict.jinja ";
  EXPECT_EQ(run(train), 2) << output_;
  expect("chat.jsonl:25: ");
  expect("the template says: no role critic; try to mend it, or --skip_corrupt true");
  for (const char* learnt : {"answers", "all"}) {
    ASSERT_EQ(run(train + "--skip_corrupt true --overwrite_output_dir --train_on " + learnt), 0)
        << output_;
    expect("chat.jsonl: 24 conversations of ");
    expect("3 left out as corrupt, such as: chat.jsonl:25: ");
  }
  // What is wrong with the run is no row's fault.
  fs::remove(folder_ / "words/chat_template.jinja");
  EXPECT_EQ(run(std::string(kLlama) + "--output_dir none --skip_corrupt true"), 2) << output_;
  expect("the model has no chat template for them");
}

TEST_F(ChatCommand, StopsAnAnswerAtCtrlCAndGoesOn) {
  std::string train = kLlama;
  train.replace(train.find("embeddings 128"), 14, "embeddings 100000");
  ASSERT_EQ(run(train + "--output_dir out --max_steps 1 --max_length 128"), 0) << output_;
  // Hardly trained: it goes on until it is stopped.
  ASSERT_EQ(shell("mkfifo in; $convoy generate out --chat --max-new-tokens 90000 --threads 1 < in "
                  "> said 2> told & chat=$!; exec 3> in; echo one >&3; "
                  "until [ -s said ]; do sleep 0.1; done; sleep 0.3; kill -INT $chat; "
                  "until grep -q stopped told; do sleep 0.1; done; "
                  "echo two >&3; sleep 1; kill -INT $chat; "
                  "until [ $(grep -c stopped told) = 2 ]; do sleep 0.1; done; "
                  "kill -INT $chat; exec 3>&-; wait $chat; echo ended $?"),
            0)
      << output_;
  expect("ended 0");
}

}  // namespace
}  // namespace convoy
