#include "tests/cli/preference_testing.h"

// A person trains a model on pairs of answers.
namespace convoy {
namespace {

constexpr const char* kReference = "reference_log_probs.safetensors";

TEST_F(PreferenceCommand, LearnsWhichAnswerIsPreferred) {
  ASSERT_EQ(run(std::string(kPairs) +
                "--output_dir out --max_steps 30 --learning_rate 1e-2 --eval_strategy steps "
                "--eval_steps 15 --validation_split_percentage 25"),
            0)
      << output_;
  expect("pairs.jsonl: 24 pairs of ");
  expect(
      "example, what is compared in [[ ]]: chosen: <|im_start|>user\\nWho are you?<|im_end|>\\n"
      "<|im_start|>assistant\\n[[I am Otto.0<|im_end|>\\n]]; rejected: ");
  expect("computing the reference's log-probabilities of 24 pairs");
  expect("rewards/accuracies 1.0000 rewards/margins");
  EXPECT_NEAR(losses("out").front(), std::log(2), 1e-6);
  EXPECT_LT(losses("out").back(), 0.2);
  EXPECT_GT(logged("out", "rewards/margins").back(), 1);
  const auto log = json("out/trainer_state.json")["log_history"];
  EXPECT_TRUE(log[0].contains("rewards/chosen")) << log[0];
  // The run knows its pairs, and their reference.
  const auto evaluated = json("out/eval_results.json");
  ASSERT_EQ(run("eval out --json --threads 1"), 0) << output_;
  const auto again = parse_json(output_.substr(output_.find('{')), "eval");
  for (const char* key : {"eval_loss", "eval_rewards/margins", "eval_rewards/accuracies"}) {
    EXPECT_NEAR(again[key].get<double>(), evaluated[key].get<double>(), 1e-6) << key;
  }
  ASSERT_EQ(run("eval out --beta 0.5 --json --threads 1"), 0) << output_;
  const auto sharper = parse_json(output_.substr(output_.find('{')), "eval");
  EXPECT_NEAR(sharper["eval_rewards/margins"].get<double>(),
              5 * evaluated["eval_rewards/margins"].get<double>(), 1e-5);
  // Those of other pairs nobody knows any more.
  write_file(folder_ / "others.jsonl", line(100));
  EXPECT_EQ(run("eval out --data others.jsonl --threads 1"), 2) << output_;
  expect("has not kept the reference's log-probabilities of all pairs of others.jsonl");
  EXPECT_EQ(run("eval out --max_length 40 --threads 1"), 2) << output_;
  expect("has not kept the reference's log-probabilities of all pairs of ");
  expect("; try --max_length 128, as in training");
  // It chats.
  ASSERT_EQ(shell("echo Hi | $convoy generate out --chat --max_new_tokens 2"), 0) << output_;
}

TEST_F(PreferenceCommand, IsTheSameInEveryLayout) {
  const auto train = [&](const char* out, const std::string& more) {
    ASSERT_EQ(run(std::string(kPairs) + "--max_steps 5 --save_strategy no --output_dir " + out +
                  " " + more),
              0)
        << output_;
  };
  train("one", "--per_device_train_batch_size 8");
  train("data", "--nproc 2");
  train("threads", "--strategy dp --replicas 2 --per_device_train_batch_size 8");
  train("zero1", "--nproc 2 --zero 1");
  train("zero2", "--nproc 2 --zero 2");
  train("zero3", "--nproc 2 --zero 3");
  train("parts", "--gradient_accumulation_steps 2");
  train("stages", "--nproc 2 --pipeline_parallel_size 2 --gradient_accumulation_steps 2");
  train("heads", "--nproc 2 --tensor_parallel_size 2 --per_device_train_batch_size 8");
  train("tokens",
        "--nproc 2 --tensor_parallel_size 2 --sequence_parallel --per_device_train_batch_size 8");
  train("again", "--gradient_checkpointing --per_device_train_batch_size 8");
  for (const char* other :
       {"data", "zero1", "zero2", "zero3", "parts", "stages", "heads", "tokens", "again"}) {
    SCOPED_TRACE(other);
    expect_near(losses("one"), losses(other), 1e-6);
    const auto expected = logged("one", "rewards/margins"), got = logged(other, "rewards/margins");
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
  }
  EXPECT_EQ(run("compare one heads"), 0) << output_;
  expect("The runs read the same rows");
}

TEST_F(PreferenceCommand, AdaptersAreHeldToTheirBase) {
  const auto model = std::string(kPairs) + "--max_steps 1 --save_strategy no --output_dir base";
  ASSERT_EQ(run(model), 0) << output_;
  const std::string train =
      "train --task preference --model_name_or_path base --data.train pairs.jsonl "
      "--logging_steps 1 --threads 1 --validation_split_percentage 0 --lora_r 2 "
      "--learning_rate 1e-2 --save_steps 3 --max_steps 6 --per_device_train_batch_size 8 ";
  ASSERT_EQ(run(train + "--output_dir one"), 0) << output_;
  EXPECT_NEAR(losses("one").front(), std::log(2), 1e-6);
  EXPECT_LT(losses("one").back(), losses("one").front());
  ASSERT_EQ(run(train + "--output_dir heads --nproc 2 --tensor_parallel_size 2"), 0) << output_;
  expect_near(losses("one"), losses("heads"));
  // An adapter that is trained further begins as its own reference.
  ASSERT_EQ(run("train --task preference --adapter_name_or_path one --data.train pairs.jsonl "
                "--logging_steps 1 --threads 1 --validation_split_percentage 0 "
                "--max_steps 2 --output_dir further"),
            0)
      << output_;
  EXPECT_NEAR(losses("further").front(), std::log(2), 1e-6);
  // But not one that goes on.
  ASSERT_EQ(run(train + "--output_dir again --resume_from_checkpoint one/checkpoint-3"), 0)
      << output_;
  const auto whole = losses("one"), rest = losses("again");
  ASSERT_EQ(rest.size(), 3u);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.begin() + 3));
}

TEST_F(PreferenceCommand, ResumesInTheMiddleOfAnEpochAsIfNothingHadHappened) {
  const std::string train = std::string(kPairs) + "--save_steps 2 --max_steps 10 ";
  ASSERT_EQ(run(train + "--logging_steps 4 --output_dir whole"), 0) << output_;
  const std::string resumed =
      train + "--logging_steps 4 --output_dir again --resume_from_checkpoint whole/checkpoint-2 ";
  ASSERT_EQ(run(resumed), 0) << output_;
  EXPECT_FALSE(says("computing the reference's")) << output_;
  for (const char* key : {"loss", "rewards/margins", "rewards/chosen", "logps/rejected"}) {
    EXPECT_EQ(logged("whole", key), logged("again", key)) << key;
  }
  // The reference's log-probabilities go with the run.
  EXPECT_EQ(read_file(folder_ / "again" / kReference), read_file(folder_ / "whole" / kReference));
  EXPECT_EQ(run(train + "--max_length 50 --output_dir other --resume_from_checkpoint "
                        "whole/checkpoint-2"),
            2)
      << output_;
  expect("lacks the reference's log-probabilities of some of this run's pairs");
  fs::remove(folder_ / "whole" / kReference);
  EXPECT_NE(run(train + "--output_dir other --resume_from_checkpoint whole/checkpoint-2"), 0);
  expect(std::string("there is no ") + kReference + " in ");
}

TEST_F(PreferenceCommand, ARunGoesOnWithItsOwnTask) {
  const auto chat = std::string(kLlama) + "--save_steps 1 --max_steps 2 --output_dir chat ";
  const auto pairs = std::string(kPairs) + "--save_steps 1 --max_steps 2 --output_dir pairs ";
  ASSERT_EQ(run(chat + "--max_steps 1"), 0) << output_;
  ASSERT_EQ(run(pairs + "--max_steps 1"), 0) << output_;
  EXPECT_EQ(run(pairs + "--overwrite_output_dir --resume_from_checkpoint chat/checkpoint-1"), 2);
  expect("chat/checkpoint-1 is of a run with task = chat, and this one has task = preference");
  expect("checkpoint-1 without --resume_from_checkpoint, which begins with its weights");
  EXPECT_EQ(run(chat + "--overwrite_output_dir --resume_from_checkpoint pairs/checkpoint-1/"), 2);
  expect("pairs/checkpoint-1 is of a run with task = preference, and this one has task = chat");
  EXPECT_EQ(run(std::string(kPairs) + "--max_steps 2 --output_dir chat --resume_from_checkpoint "
                                      "latest"),
            2);
  expect("checkpoint-1 is of a run with task = chat");
  ASSERT_EQ(run("train --task preference --model_name_or_path chat/checkpoint-1 --data.train "
                "pairs.jsonl --threads 1 --validation_split_percentage 0 --max_steps 1"),
            0)
      << output_;
}

TEST_F(PreferenceCommand, ReferenceBesideTheCheckpointIsTaken) {
  const std::string train = std::string(kPairs) + "--save_steps 2 --max_steps 4 ";
  ASSERT_EQ(run(train + "--output_dir whole"), 0) << output_;
  // A run of another model left its own in the folder.
  ASSERT_EQ(run(train + "--seed 7 --output_dir again"), 0) << output_;
  const auto of_other = read_file(folder_ / "again" / kReference);
  ASSERT_EQ(run(train + "--output_dir again --overwrite_output_dir --resume_from_checkpoint "
                        "whole/checkpoint-2/"),
            0)
      << output_;
  expect("the reference's log-probabilities of 24 pairs are those in ");
  for (const char* key : {"loss", "rewards/margins"}) {
    const auto whole = logged("whole", key), again = logged("again", key);
    // The log goes on behind that of the run which was there.
    ASSERT_EQ(whole.size(), 4u);
    ASSERT_GE(again.size(), 2u);
    EXPECT_TRUE(std::equal(whole.begin() + 2, whole.end(), again.end() - 2)) << key;
  }
  EXPECT_NE(read_file(folder_ / "again" / kReference), of_other);
  // One byte of a log-probability.
  auto damaged = read_file(folder_ / "whole" / kReference);
  damaged[damaged.size() - 3] ^= 1;
  write_file(folder_ / "whole" / kReference, damaged);
  EXPECT_NE(run(train + "--output_dir other --resume_from_checkpoint whole/checkpoint-2"), 0);
  expect("is damaged: its checksum is not that of its log-probabilities");
}

TEST_F(PreferenceCommand, DifferentReferenceIsRefused) {
  for (const char* out : {"base", "other"}) {
    ASSERT_EQ(run(std::string(kPairs) + "--max_steps 1 --save_strategy no --seed " +
                  (out[0] == 'b' ? "1" : "2") + " --output_dir " + out),
              0)
        << output_;
  }
  const auto train = [](const std::string& model) {
    return "train --task preference --model_name_or_path " + model +
           " --data.train pairs.jsonl --threads 1 --validation_split_percentage 0 "
           "--save_steps 1 --max_steps 2 --output_dir out ";
  };
  ASSERT_EQ(run(train("base")), 0) << output_;
  fs::remove_all(folder_ / "out/checkpoint-2");
  EXPECT_EQ(run(train("other") + "--resume_from_checkpoint latest"), 2) << output_;
  expect("holds the log-probabilities of another reference than ");
  ASSERT_EQ(run(train("base") + "--resume_from_checkpoint latest"), 0) << output_;
  // What another run has kept is no reason to compute them anew, nor to trust them.
  ASSERT_EQ(run(train("base") + "--overwrite_output_dir"), 0) << output_;
  EXPECT_FALSE(says("computing the reference's")) << output_;
  ASSERT_EQ(run(train("other") + "--overwrite_output_dir"), 0) << output_;
  expect("computing the reference's");
}

TEST_F(PreferenceCommand, RefModelOptionNamesTheReference) {
  const std::string save = "--save_strategy no --max_steps 1 ";
  const std::string narrow = "--hidden_size 16 --intermediate_size 32 ";
  ASSERT_EQ(run(std::string(kLlama) + save + narrow + "--learning_rate 1e-2 --output_dir other"), 0)
      << output_;
  // What it says of the pairs where it is the model itself, whose rewards are zeros.
  ASSERT_EQ(run("train --task preference --model_name_or_path other --data.train pairs.jsonl "
                "--logging_steps 1 --threads 1 --validation_split_percentage 0 "
                "--per_device_train_batch_size 8 --output_dir own " +
                save),
            0)
      << output_;
  EXPECT_NEAR(losses("own").front(), std::log(2), 1e-6);
  const std::string train = std::string(kPairs) + "--ref_model_name_or_path other ";
  const auto trains = [&](const char* out, const std::string& more) {
    ASSERT_EQ(run(train + save + "--output_dir " + out + " " + more), 0) << output_;
    expect("computing the reference's log-probabilities of 24 pairs with other");
    for (const char* answer : {"chosen", "rejected"}) {
      SCOPED_TRACE(out + std::string(" ") + answer);
      const auto logps = std::string("logps/") + answer, rewards = std::string("rewards/") + answer;
      const double reference =
          logged(out, logps).front() - logged(out, rewards).front() / 0.1;  // beta
      EXPECT_NEAR(reference, logged("own", logps).front(), 1e-3);
      EXPECT_GT(std::abs(logged(out, rewards).front()), 1e-3);
    }
  };
  trains("one", "--per_device_train_batch_size 8");
  trains("zero", "--nproc 2 --zero 3");
  trains("threads", "--strategy dp --replicas 2");
  trains("stages", "--nproc 2 --pipeline_parallel_size 2 --gradient_accumulation_steps 2");
  trains("heads", "--nproc 2 --tensor_parallel_size 2 --per_device_train_batch_size 8");
}

TEST_F(PreferenceCommand, MemoryOfAnotherReferenceIsEstimatedAndChecked) {
  const std::string wide = "--hidden_size 512 --intermediate_size 512 ";
  ASSERT_EQ(run(std::string(kLlama) + wide + "--save_strategy no --max_steps 1 --output_dir other"),
            0)
      << output_;
  const auto weights = static_cast<double>(fs::file_size(folder_ / "other/model.safetensors"));
  const std::string asked = std::string(kPairs).substr(std::string("train ").size());
  // Bytes beside the state of the stage that has most, and when.
  const auto estimated = [&](const std::string& more) {
    EXPECT_EQ(run("estimate --json " + asked + more + " > estimate.json"), 0) << output_;
    for (const auto& way : json("estimate.json")) {
      if (!way["asked"].get<bool>()) continue;
      double most = 0;
      for (const auto& stage : way["stages"]) {
        most = std::max(most, stage["activations"].get<double>());
      }
      return std::pair{way["peak"].get<std::string>(), most};
    }
    return std::pair<std::string, double>();
  };
  const std::string reference = "--ref_model_name_or_path other --per_device_eval_batch_size 1 ";
  const auto [when, taken] = estimated(reference);
  EXPECT_EQ(when,
            "while it computes the reference's log-probabilities with other beside it "
            "(per_device_eval_batch_size 1)");
  EXPECT_GT(taken, weights);
  // Frozen weights of 16 bits have no masters; two stages have a half each.
  EXPECT_NEAR((taken - estimated(reference + "--bf16").second) / weights, 0.5, 0.1);
  const auto halves = estimated(reference +
                                "--ranks 2 --pipeline_parallel_size 2 "
                                "--gradient_accumulation_steps 2");
  EXPECT_NEAR((taken - halves.second) / weights, 0.5, 0.1);
  // The model itself, and the base of adapters, are there anyway.
  EXPECT_EQ(estimated("--per_device_eval_batch_size 1").first.find("beside it"), std::string::npos);
  EXPECT_LT(estimated("--per_device_eval_batch_size 1").second, weights / 2);
  // A step is small and its evaluation large.
  EXPECT_EQ(estimated("--per_device_eval_batch_size 200 --gradient_checkpointing").first,
            "while it computes the reference's log-probabilities (per_device_eval_batch_size 200)");

  EXPECT_EQ(run(std::string(kPairs) + reference + "--output_dir out --device_memory 4MB"), 2);
  expect("the reference, ref_model_name_or_path = other, takes ");
  expect("try more ranks with --zero 3, or a smaller reference");
}

TEST_F(PreferenceCommand, RefModelStaysTheReference) {
  const std::string once = "--save_strategy no --max_steps 1 ";
  ASSERT_EQ(run(std::string(kLlama) + once + "--output_dir other"), 0) << output_;
  ASSERT_EQ(run(std::string(kLlama) + once + "--seed 2 --output_dir third"), 0) << output_;
  const std::string train = std::string(kPairs) + "--save_steps 1 --max_steps 2 --output_dir out ";
  ASSERT_EQ(run(train + "--ref_model_name_or_path other"), 0) << output_;
  const std::string resumed = train + "--max_steps 3 --resume_from_checkpoint out/checkpoint-1 ";
  for (const char* reference : {"", "--ref_model_name_or_path third"}) {
    EXPECT_EQ(run(resumed + reference), 2) << output_;
    expect("holds the log-probabilities of another reference than ");
  }
  ASSERT_EQ(run(resumed + "--ref_model other"), 0) << output_;
  EXPECT_FALSE(says("computing the reference's")) << output_;
  ASSERT_EQ(run("eval out --data.valid pairs.jsonl --threads 1"), 0) << output_;
}

TEST_F(PreferenceCommand, AReferenceOfOtherTokensIsRefused) {
  const std::string train = std::string(kPairs) + "--max_steps 1 ";
  ASSERT_EQ(run(std::string(kLlama) + "--save_strategy no --max_steps 1 --output_dir other"), 0);
  const auto refused = [&](const std::string& folder, const std::string& part) {
    EXPECT_EQ(run(train + "--output_dir out --ref_model_name_or_path " + folder), 2) << output_;
    expect(part);
    EXPECT_FALSE(fs::exists(folder_ / "out"));
  };
  refused("none", "ref_model_name_or_path = none is no folder with config.json");
  ASSERT_EQ(run(std::string(kLlama) + "--save_strategy no --max_steps 1 --output_dir short "
                                      "--max_position_embeddings 64"),
            0);
  refused("short", "max_length = 128 is beyond the 64 positions of ref_model_name_or_path = short");
  auto words = json("other/tokenizer.json");
  std::swap(words["model"]["vocab"]["a"], words["model"]["vocab"]["b"]);
  write_file(folder_ / "other/tokenizer.json", words.dump());
  refused("other", "other has another tokenizer than this run: its id 64 is 'b', and here 'a'");
  ASSERT_EQ(run("train --task preference --model_name_or_path short --data.train pairs.jsonl "
                "--threads 1 --validation_split_percentage 0 --lora_r 2 --max_steps 1 "
                "--save_strategy no --output_dir adapter"),
            0)
      << output_;
  refused("adapter", "adapter is an adapter; try convoy checkpoint merge adapter --output MODEL");
}

TEST_F(PreferenceCommand, DropoutOfZeroIsNoDropout) {
  ASSERT_EQ(run(std::string(kPairs) + "--max_steps 1 --attention_dropout 0.0 --output_dir out"), 0)
      << output_;
}

TEST_F(PreferenceCommand, PromptsThatEndOtherwiseBeforeAnAnswerAreCounted) {
  const std::string train = std::string(kPairs) + "--max_steps 1 --data.train texts.jsonl ";
  write_file(folder_ / "texts.jsonl",
             "{\"prompt\": \"say it\", \"chosen\": \" low\", \"rejected\": \" no\"}\n");
  ASSERT_EQ(run(train), 0) << output_;
  EXPECT_FALSE(says("the prompt alone")) << output_;
  write_file(folder_ / "texts.jsonl",
             "{\"prompt\": \"say it\", \"chosen\": \" low\", \"rejected\": \" no\"}\n"
             "{\"prompt\": \"say th\", \"chosen\": \"e\", \"rejected\": \"at\"}\n");
  ASSERT_EQ(run(train), 0) << output_;
  expect("warning: of 1 of 2 pairs in texts.jsonl the prompt alone ends with other tokens than ");
  expect("such as texts.jsonl:2, where ' th' is left out: answers begin where the tokens part");
}

TEST_F(PreferenceCommand, TextsThatNothingEndsAreTold) {
  const std::string train = std::string(kPairs) + "--max_steps 1 ";
  const std::string no_end = "the tokenizer names no token that ends texts, so nothing ends the ";
  write_file(folder_ / "texts.jsonl",
             "{\"prompt\": \"say it\", \"chosen\": \" low\", \"rejected\": \" no\"}\n");
  ASSERT_EQ(run(train + "--data.train texts.jsonl"), 0) << output_;
  EXPECT_FALSE(says(no_end)) << output_;
  write_file(folder_ / "words/tokenizer_config.json", R"({"bos_token": "<s>"})");
  ASSERT_EQ(run(train + "--data.train texts.jsonl"), 0) << output_;
  expect(no_end + "answers of rows of texts, such as texts.jsonl:1,");
  ASSERT_EQ(run(train), 0) << output_;
  EXPECT_FALSE(says(no_end)) << "templates end messages: " << output_;
}

TEST_F(PreferenceCommand, RefusesPairsThatCannotBeLearnt) {
  const std::string train = std::string(kPairs) + "--max_steps 1 ";
  const auto refused = [&](const std::string& lines, const std::string& part) {
    write_file(folder_ / "bad.jsonl", lines);
    EXPECT_NE(run(train + "--data.train bad.jsonl --output_dir bad"), 0) << output_;
    expect(part);
    EXPECT_FALSE(fs::exists(folder_ / "bad"));
  };
  refused(line(0) + pair_of_answers("Hi", "A", "A"),
          "bad.jsonl:2: chosen and rejected are the same");
  refused(line(0) + "{\"prompt\": \"x\", \"chosen\": \"y\"}\n", "bad.jsonl:2: rejected is missing");
  refused(line(0) + line(1) + "{\"prompt\n", "bad.jsonl:3 is not valid JSON");
  refused("", "bad.jsonl holds no pair of answers");
  refused(pair_of_answers(std::string(200, 'x'), "A", "B"),
          "1 of 1 pair in bad.jsonl without a preference within max_length");
  write_file(folder_ / "bad.jsonl", line(0) + pair_of_answers("Hi", "A", "A") + line(1));
  ASSERT_EQ(run(train + "--data.train bad.jsonl --skip_corrupt true"), 0) << output_;
  expect("bad.jsonl: 2 pairs of ");
  expect("1 left out as corrupt, such as: bad.jsonl:2: chosen and rejected are the same");

  write_file(folder_ / "some.jinja",
             "{% if messages[0].content == 'Hi' %}{{ raise_exception('no greeting') }}{% endif %}" +
                 read_file(folder_ / "words/chat_template.jinja"));
  write_file(folder_ / "bad.jsonl", line(0) + pair_of_answers("Hi", "A", "B") + line(1));
  const auto some = train + "--data.train bad.jsonl --chat_template some.jinja ";
  EXPECT_EQ(run(some), 2) << output_;
  expect("bad.jsonl:2: ");
  ASSERT_EQ(run(some + "--skip_corrupt true"), 0) << output_;
  expect("bad.jsonl: 2 pairs of ");
  expect("1 left out as corrupt, such as: bad.jsonl:2: ");

  write_file(folder_ / "raise.jinja", "{{ raise_exception('no such roles') }}");
  EXPECT_EQ(run(train + "--chat_template raise.jinja"), 2) << output_;
  expect("pairs.jsonl:1: ");
  expect("the template says: no such roles; try to mend it, or --skip_corrupt true");
  EXPECT_EQ(run(train + "--chat_template raise.jinja --skip_corrupt true"), 1) << output_;
  expect("pairs.jsonl holds no pair of answers; 24 left out as corrupt, such as: pairs.jsonl:1: ");
  for (const auto& [option, part] : std::map<std::string, std::string>{
           {"--loss_type ipo --label_smoothing 0.1", "no effect with train.loss_type = ipo"},
           {"--loss_type hinge", "expected one of sigmoid, ipo, robust"},
           {"--attention_dropout 0.1", "preferences are learnt without dropout"},
           {"--nproc 2 --context_parallel_size 2", "does not go with context_parallel_size = 2"},
           {"--truncation_mode keep_end", "answers are cut at their end"}}) {
    EXPECT_EQ(run(train + option), 2) << output_;
    expect(part);
  }
}

}  // namespace
}  // namespace convoy
