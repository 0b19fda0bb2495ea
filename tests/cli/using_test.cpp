#include <regex>

#include "convoy/base/text.h"
#include "tests/cli/preference_testing.h"

// What a person sees and gets who uses the program.
namespace convoy {
namespace {

class Using : public CommandTest {
 protected:
  void expect_fits(const std::string& what) const {
    for (const auto& line : split(output_, '\n')) {
      EXPECT_LE(display_width(line), 120) << what << ": " << line;
    }
  }

  /// The commands of the first block below a heading of a page, as the test runs them.
  static std::vector<std::string> commands_of(const std::string& file, const std::string& heading) {
    const auto page = read_file(fs::path(CONVOY_SOURCE_DIR) / file);
    const auto begin = page.find("```\n", page.find(heading)) + 4;
    const auto block = std::regex_replace(page.substr(begin, page.find("```", begin) - begin),
                                          std::regex("\\\\\n"), " ");
    std::vector<std::string> commands;
    for (auto command : split(block, '\n')) {
      command = std::regex_replace(command, std::regex(" +# .*"), "");
      if (command.starts_with("convoy ")) command.insert(0, "$");
      command = std::regex_replace(command, std::regex("\\| convoy "), "| $$convoy ");
      if (!trim(command).empty()) commands.push_back(command);
    }
    return commands;
  }

  /// Events of people who step through 30 films in a ring, each from another place.
  void write_events(int people) {
    std::string text = "user_id,item_id,timestamp\n";
    for (int user = 0; user < people; ++user) {
      for (int time = 0; time < 12; ++time) {
        text += "person-" + std::to_string(user) + ",film-" +
                std::to_string((user * 7 + time) % 30) + "," + std::to_string(1000 * user + time) +
                "\n";
      }
    }
    write_file(folder_ / "events.csv", text);
  }
};

TEST_F(Using, HelpFitsAndKnowsADayFromAll) {
  for (const char* command : {"",
                              "train",
                              "eval",
                              "predict",
                              "generate",
                              "export",
                              "tune",
                              "export vectors",
                              "export onnx",
                              "data",
                              "data sessions",
                              "data synthetic",
                              "data inspect",
                              "data repartition",
                              "launch",
                              "bench",
                              "bench strategies",
                              "bench step",
                              "bench loader",
                              "bench collectives",
                              "bench batch",
                              "bench axes",
                              "doctor"}) {
    for (const char* how : {" --help", " --help all"}) {
      ASSERT_EQ(run(std::string(command) + how), 0) << output_;
      expect_fits(std::string(command) + how);
    }
  }
  ASSERT_EQ(run("train --help"), 0);
  expect("\n[train]\n");
  expect("--learning_rate");
  expect("`convoy train --help all`");
  EXPECT_EQ(output_.find("--adam_beta1"), std::string::npos);
  ASSERT_EQ(run("train --help all"), 0);
  expect("--adam_beta1");
  for (const char* command : {"eval", "predict"}) {
    ASSERT_EQ(run(std::string(command) + " --help"), 0);
    for (const char* option :
         {"--zero, --zero_stage integer", "--pipeline_parallel_size, --pp_size",
          "--per_device_eval_batch_size", "--bf16", "--device"}) {
      expect(option);
    }
    for (const char* option : {"--learning_rate", "--output_dir", "--tf32", "--d_model"}) {
      EXPECT_EQ(output_.find(option), std::string::npos) << option;
    }
  }
}

TEST_F(Using, QuickstartWorks) {
  for (const char* heading :
       {"## A first training", "## On two ranks", "## Stop and go on", "## A config file"}) {
    const auto commands = commands_of("docs/quickstart.md", heading);
    ASSERT_FALSE(commands.empty()) << heading;
    for (const auto& command : commands) ASSERT_EQ(shell(command), 0) << command << output_;
  }
  const auto loss = [&](const char* folder) {
    return json(std::string(folder) + "/train_results.json")["train_final_loss"].get<double>();
  };
  EXPECT_LT(loss("runs/quick2"), loss("runs/quick")) << "it went on";
}

TEST_F(Using, CountsThatCannotBeAreToldInALine) {
  make_sessions();
  for (const char* asked : {"estimate --data.path syn --ranks 0", "predict out --rows -1",
                            "bench save run.toml --rounds 0", "estimate --ranks x"}) {
    EXPECT_EQ(run(asked), 2) << output_;
    expect("; expected a whole number of at least ");
    EXPECT_LT(output_.size(), 200U) << output_;
  }
}

TEST_F(Using, HuggingFacesNamesOfAdamWAreTaken) {
  make_sessions();
  for (const char* name : {"adamw_torch", "adamw_torch_fused"}) {
    ASSERT_EQ(run("train" + kTiny + "--max_steps 1 --output_dir " + name + " --optim " + name), 0)
        << output_;
  }
  EXPECT_TRUE(read_file(folder_ / "adamw_torch/model.safetensors") ==
              read_file(folder_ / "adamw_torch_fused/model.safetensors"));
  EXPECT_EQ(run("train" + kTiny + "--max_steps 1 --optim sgd"), 2);
  expect("train.optim = 'sgd' is unknown; expected one of adamw_torch, adamw_torch_fused");
  EXPECT_EQ(run("train" + kTiny + "--max_steps 1 --optim lion_32bit --adam_epsilon 1e-6"), 2);
  expect("train.adam_epsilon = 1e-06 has no effect with train.optim = lion_32bit");
}

TEST_F(Using, CheckpointOfADifferentOptimizerIsRefusedInALine) {
  make_sessions();
  ASSERT_EQ(run("train" + kTiny + "--max_steps 2 --save_steps 1 --output_dir out"), 0) << output_;
  const auto resume = [&](const std::string& name) {
    return run("train" + kTiny +
               "--max_steps 3 --output_dir out --resume_from_checkpoint latest --optim " + name);
  };
  EXPECT_EQ(resume("lion_32bit"), 2);
  expect("checkpoint-2 is of adamw_torch; got lion_32bit; try --optim adamw_torch");
  EXPECT_EQ(resume("adamw_torch_fused"), 0) << output_;
}

TEST_F(Using, LaunchStartsScriptsAsTorchrunDoesAndNothingTwice) {
  // In one write: Python under a launcher is unbuffered, and a print of two words is several
  // writes.
  write_file(folder_ / "who.py",
             "import os\nos.write(1, ('rank ' + os.environ['RANK'] + '\\n').encode())\n");
  ASSERT_EQ(run("launch -n 2 who.py"), 0) << output_;
  expect("rank 0");
  expect("rank 1");
  EXPECT_NE(run("launch -n 2 --no-python ./who.py"), 0);
  expect("Permission denied");
  EXPECT_EQ(run("launch -n 2 report out"), 2);
  expect("report is a command of one process; try convoy report without launch");
  EXPECT_EQ(run("launch -n 2 --log-dir logs --local-ranks-filter 0,2 -- true"), 2);
  expect("--local-ranks-filter names local rank 2; there are 2: 0 to 1");
  write_file(folder_ / "notes.txt", "mine");
  EXPECT_EQ(run("report out --output notes.txt"), 2);
  expect("--output notes.txt is there and is no report");
}

TEST_F(Using, RanksOfACommandEndWithoutAnEmptyLine) {
  make_sessions();
  EXPECT_NE(shell("CONVOY_FAULT=exit@1:forward:1 $convoy train" + kTiny +
                  "--max_steps 3 --ddp_timeout 20 --nproc 2 --quiet"),
            0);
  expect("rank 1");
  EXPECT_FALSE(output_.ends_with("\n\n")) << output_;
}

TEST_F(Using, LinesFitAndSomethingMovesOnATerminal) {
  make_sessions();
  const auto train = "train" + kTiny +
                     "--max_steps 1000 --logging_steps 500 --top_ks 1,2,3,4,5,6,7,8,9,10 "
                     "--eval_strategy steps --fp16 --warmup_steps 4000 ";
  ASSERT_EQ(run(train), 0) << output_;
  expect_fits("train");
  EXPECT_EQ(output_.find('\r'), std::string::npos) << "no terminal: " << output_;
  for (const char* ranks : {"", "--nproc 2"}) {
    ASSERT_EQ(shell("script -qec \"$convoy " + train + ranks + "\" /dev/null"), 0) << output_;
    EXPECT_TRUE(std::regex_search(
        output_, std::regex("\r\x1b\\[Kstep [0-9]+/1000  loss [0-9.]+  [0-9.]+ samples/s  left "
                            "[^\r]*\r\x1b\\[K")))
        << output_;
  }
}

TEST_F(Using, ATrainingWhoseReaderLeavesGoesOn) {
  make_sessions();
  for (const char* way : {"train", "launch -n 2 train", "launch -n 2 --log-dir logs train"}) {
    EXPECT_EQ(shell("($convoy " + std::string(way) + kTiny +
                    "--max_steps 40 --output_dir out --overwrite_output_dir; echo $? > code) | "
                    "true"),
              0);
    EXPECT_EQ(read_file(folder_ / "code"), "0\n") << way << output_;
    EXPECT_EQ(json("out/trainer_state.json")["global_step"], 40);
    fs::remove_all(folder_ / "out");
  }
}

// The notes that a run begins with go to standard error, and so do the reports of its failures.
TEST_F(Using, NobodyNeedsToReadStandardError) {
  make_sessions();
  const auto expect_code = [&](const std::string& typed, const char* code) {
    EXPECT_EQ(shell("($convoy " + typed + " 2>&1; echo $? > code) | true"), 0);
    EXPECT_EQ(read_file(folder_ / "code"), code) << typed << output_;
  };
  expect_code("train --learning_rat 1", "2\n");
  expect_code("train" + kTiny + "--max_steps 2 --zero 2 --output_dir out", "0\n");
  expect_code("launch -n 2 --max-restarts 1 train" + kTiny +
                  "--max_steps 6 --save_steps 2 --output_dir again",
              "0\n");
  EXPECT_EQ(
      shell("(CONVOY_FAULT=sigkill@1:forward:3 $convoy launch -n 2 --max-restarts 1 train" + kTiny +
            "--max_steps 6 --save_steps 2 --output_dir restarted 2>&1; echo $? > code) | "
            "true"),
      0);
  EXPECT_EQ(read_file(folder_ / "code"), "0\n") << "it was not restarted";
  EXPECT_EQ(json("restarted/trainer_state.json")["global_step"], 6);
  // The start that died counts as time of the job.
  const double goodput = json("restarted/train_results.json")["train_goodput"];
  const double useful = json("restarted/trainer_state.json")["useful_seconds"];
  EXPECT_GT(goodput, 0);
  EXPECT_LT(goodput, 0.5) << "starting takes longer than six tiny steps";
  EXPECT_GT(useful, 0);
}

TEST_F(Using, RanksWhoseReaderHasEnoughEndWithoutAReport) {
  for (const char* way : {"launch -n 2 --max-restarts 2 -- yes",
                          "launch -n 2 -- sh -c 'while :; do echo $RANK; sleep 0.01; done'"}) {
    EXPECT_EQ(shell(fmt::format("($convoy {} 2> errors; echo $? > code) | head -n 1", way)), 0);
    EXPECT_EQ(read_file(folder_ / "code"), "141\n") << way;
    EXPECT_EQ(read_file(folder_ / "errors"), "") << way;
  }
}

TEST_F(Using, FirstTrainingOfTheReadmeLearns) {
  write_events(400);
  const auto commands = commands_of("README.md", "## Train on your data");
  for (const auto& command : commands) {
    const bool trains = command.find(" train ") != std::string::npos;
    ASSERT_EQ(shell(command + (trains ? " --save_steps 30" : "")), 0) << command << "\n" << output_;
    expect_fits(command);
  }
  EXPECT_GE(commands.size(), 5u);
  // All of them follow the ring; popularity knows nothing of it.
  EXPECT_GT(json("runs/first/all_results.json")["eval_ndcg_at_10"], 0.9);
  int64_t checkpoints = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "runs/first")) {
    checkpoints += entry.path().filename().string().starts_with("checkpoint-");
  }
  EXPECT_EQ(checkpoints, 2) << "of five";
  EXPECT_NE(read_file(folder_ / "top.csv").find(",person-39,1,film-"), std::string::npos);
}

/// On less text, for a step.
TEST_F(Using, LanguageModelsOfTheReadmeTrain) {
  auto commands = commands_of("README.md", "## Train a language model");
  ASSERT_EQ(commands.size(), 14u);
  for (auto& more : commands_of("README.md", "## Train what does not fit"))
    commands.push_back(more);
  ASSERT_EQ(commands.size(), 15u);
  EXPECT_EQ(commands[0], "./dev data text");
  EXPECT_EQ(std::erase_if(commands, [](const auto& c) { return c.starts_with("./dev data "); }),
            3u);
  std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\nfor\nwho\nWho\n", text;
  for (int line = 0; line < 2000; ++line) text += "word word word word word word word word word\n";
  write_file(folder_ / "data/tokenizers/gpt2/vocab.txt", vocabulary);
  write_file(folder_ / "data/tokenizers/texts/source.txt", text);
  fs::create_directory_symlink(fs::path(CONVOY_SOURCE_DIR) / "examples", folder_ / "examples");
  ASSERT_EQ(run("train --family bert --hidden_size 8 --num_hidden_layers 1 --num_attention_heads 2 "
                "--intermediate_size 16 --data.train data/tokenizers/texts/source.txt "
                "--data.tokenizer data/tokenizers/gpt2 --block_size 16 --max_steps 1 "
                "--output_dir data/minilm"),
            0)
      << output_;
  write_chat_tokenizer(folder_ / "chat_words");
  std::string conversations;
  for (int row = 0; row < 20; ++row) {
    conversations += conversation({{"user", "Who are you?"}, {"assistant", "I am Otto."}});
  }
  write_file(folder_ / "data/chat/identity.jsonl", conversations);
  std::string pairs;
  for (int row = 0; row < 20; ++row) {
    pairs += pair_of_answers("Who are you?", fmt::format("Otto {}", row), "Nobody");
  }
  write_file(folder_ / "data/chat/preferences.jsonl", pairs);
  ASSERT_EQ(run("train --task chat --family llama --hidden_size 8 --num_hidden_layers 1 "
                "--num_attention_heads 2 --intermediate_size 16 --max_position_embeddings 512 "
                "--data.train data/chat/identity.jsonl --data.tokenizer chat_words --max_steps 1 "
                "--output_dir data/smollm2"),
            0)
      << output_;
  std::string reviews;
  for (const char* label : {"positive", "negative", "positive", "negative"}) {
    reviews += fmt::format("{{\"text\": \"word word\", \"label\": \"{}\"}}\n", label);
  }
  for (const char* part : {"train", "valid"}) {
    write_file(folder_ / fmt::format("data/reviews/{}.jsonl", part), reviews);
  }
  for (const auto& command : commands) {
    const bool trains = command.find(" train ") != std::string::npos;
    const bool ends = command.find("t5") != std::string::npos;  // which that tokenizer does not
    ASSERT_EQ(shell(command + (trains ? " --max_steps 1 --threads 1" : "") +
                    (ends ? " --eos_token_id 3" : "")),
              0)
        << command << "\n"
        << output_;
    const bool chats = command.find(" --chat") != std::string::npos;
    if (command.find(" generate ") != std::string::npos && !chats) expect(" tokens in ");
    if (command.find(" predict ") != std::string::npos) expect("row 3: ");
  }
  for (const char* run :
       {"gpt2_clm", "llama_tiny", "t5_denoise", "bert_classify", "sharded", "smollm2_merged"}) {
    EXPECT_TRUE(fs::exists(folder_ / "runs" / run / "model.safetensors")) << run;
  }
  for (const char* run : {"smollm2_lora", "smollm2_dpo"}) {
    EXPECT_TRUE(fs::exists(folder_ / "runs" / run / "adapter_model.safetensors")) << run;
  }
  const std::string verify =
      "convoy verify examples/gpt2_clm/small.toml --nproc 2 --zero 3 "
      "--gradient_accumulation_steps 2";
  EXPECT_NE(read_file(std::string(CONVOY_SOURCE_DIR) + "/README.md").find(verify + "\n"),
            std::string::npos);
  ASSERT_EQ(shell("$" + verify + " --threads 1"), 0) << output_;
  expect("2 data, zero 3, 2 x 4 rows  equal      equal      equal    equal  holds  bits");
}

TEST_F(Using, PredictionsNameTheUserAndAreTheSameOnAnyNumberOfRanks) {
  write_events(40);
  ASSERT_EQ(run("data sessions events.csv --output s"), 0) << output_;
  expect("wrote      s/users.parquet");
  ASSERT_EQ(run("train --data.path s --d_model 8 --n_layer 1 --n_head 2 --threads 1 --max_steps 30 "
                "--per_device_train_batch_size 8 --learning_rate 0.02 --output_dir out"),
            0)
      << output_;
  const std::string predict = "predict out --threads 1 --per_device_eval_batch_size 3 --top-k 4 ";
  ASSERT_EQ(run(predict + "--output one.csv"), 0) << output_;
  const auto one = read_file(folder_ / "one.csv");
  EXPECT_EQ(one.find("row,user_id,rank,item_id,score\n0,person-0,1,film-"), 0) << one;
  EXPECT_EQ(std::count(one.begin(), one.end(), '\n'), 1 + 40 * 4);
  ASSERT_EQ(run(predict + "--output - 2>/dev/null"), 0) << output_;
  EXPECT_EQ(output_, one);
  const auto without_scores = [](const std::string& text) {  // which round by the batch's shape
    return std::regex_replace(text, std::regex(",[-0-9.e+]+\n"), "\n");
  };
  for (const char* ranks : {"--nproc 2", "--nproc 3", "--strategy dp --replicas 2"}) {
    ASSERT_EQ(run(predict + "--output more.csv " + ranks), 0) << output_;
    EXPECT_EQ(without_scores(read_file(folder_ / "more.csv")), without_scores(one)) << ranks;
  }
  ASSERT_EQ(run(predict + "--rows 2 --exclude-seen --nproc 2"), 0) << output_;
  expect("row 0, user person-0, after ... film-");
  ASSERT_EQ(run(predict + "--output top.jsonl"), 0) << output_;
  EXPECT_EQ(parse_json(first_line(read_file(folder_ / "top.jsonl")), "top.jsonl")["user_id"],
            "person-0");
}

TEST_F(Using, AnOptionOfAnotherTaskIsNotBlamedOnTheFamily) {
  EXPECT_EQ(run("train --task classification --family bert --max_eval_samples 4"), 2) << output_;
  expect("unknown option --max_eval_samples, which is of model.task = language; see");
  EXPECT_EQ(run("train --family gpt2 --d_model 4"), 2) << output_;
  expect("unknown option --d_model, which is of model.family = session");
}

}  // namespace
}  // namespace convoy
