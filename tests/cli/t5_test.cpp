#include <sstream>

#include "convoy/launch/process.h"
#include "tests/cli/command_testing.h"
#include "tests/cli/ring_of_words.h"

namespace convoy {
namespace {

/// Trains on lines of words that follow each other in a ring: what is hidden follows from the rest.
class T5Command : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    write_ring_of_words(folder_, 12);
  }

  static constexpr const char* kTiny =
      "train --family t5 --d_model 24 --d_kv 8 --d_ff 48 --num_layers 1 --num_heads 3"
      " --dropout_rate 0 --relative_attention_num_buckets 8 --relative_attention_max_distance 12"
      " --eos_token_id 3 --data.train text.txt --data.tokenizer words --block_size 13"
      " --learning_rate 1e-2 --logging_steps 50 --threads 1 ";
};

TEST_F(T5Command, NoFileOfTheWorkingDirectoryChangesTraining) {
  const std::string train = std::string(kTiny) + "--max_steps 3 --output_dir ";
  ASSERT_EQ(run(train + "alone"), 0) << output_;
  write_file(folder_ / "generation_config.json", R"({"eos_token_id": [7, 128009]})");
  ASSERT_EQ(run(train + "beside"), 0) << output_;
  EXPECT_EQ(json("beside/eval_results.json").at("eval_loss"),
            json("alone/eval_results.json").at("eval_loss"));
  // Nor does one of the run's own folder change what it was trained for.
  write_file(folder_ / "alone/generation_config.json", R"({"eos_token_id": [7]})");
  ASSERT_EQ(run("eval alone --json > again.json"), 0) << output_;
  EXPECT_EQ(json("again.json").at("eval_loss"), json("alone/eval_results.json").at("eval_loss"));
}

TEST_F(T5Command, AnswersBeginAsTheGenerationConfigSays) {
  ASSERT_EQ(run(std::string(kTiny) + "--max_steps 60 --output_dir out"), 0) << output_;
  write_file(folder_ / "prompts.txt", "w1 w4 <extra_id_0> w13\nw2 <extra_id_0>\nw3 w6\n");
  const std::string answer = "generate out --file prompts.txt --max-new-tokens 6 > ";
  ASSERT_EQ(run(answer + "usual.txt"), 0) << output_;
  write_file(folder_ / "out/generation_config.json", R"({"decoder_start_token_id": 9})");
  ASSERT_EQ(run(answer + "said.txt"), 0) << output_;
  fs::remove(folder_ / "out/generation_config.json");
  auto config = json("out/config.json");
  EXPECT_NE(config.at("decoder_start_token_id"), 9);
  config["decoder_start_token_id"] = 9;
  write_file(folder_ / "out/config.json", config.dump());
  ASSERT_EQ(run(answer + "config.txt"), 0) << output_;
  EXPECT_EQ(read_file(folder_ / "said.txt"), read_file(folder_ / "config.txt"));
  EXPECT_NE(read_file(folder_ / "said.txt"), read_file(folder_ / "usual.txt"));
  write_file(folder_ / "out/generation_config.json", R"({"decoder_start_token_id": 125})");
  EXPECT_EQ(run(answer + "none.txt"), 1);
  expect("decoder_start_token_id = 125; expected an id of the model, 0 to 124");
}

TEST_F(T5Command, LearnsWhatIsHiddenAndAnswersTheSameOnAnyNumberOfRanks) {
  ASSERT_EQ(run(std::string(kTiny) + "--max_steps 200 --output_dir out"), 0) << output_;
  const auto results = json("out/eval_results.json");
  EXPECT_LT(results.at("eval_loss").get<double>(), 1.0) << "log(25) is 3.2";
  EXPECT_GT(results.at("eval_accuracy").get<double>(), 0.7);
  ASSERT_EQ(run("eval out --json > again.json"), 0) << output_;
  EXPECT_DOUBLE_EQ(json("again.json").at("eval_loss").get<double>(),
                   results.at("eval_loss").get<double>());
  const auto config = json("out/config.json");
  EXPECT_EQ(config.at("architectures"), Json({"T5ForConditionalGeneration"}));
  EXPECT_EQ(config.at("vocab_size"), 125) << "a hundred sentinels beside the tokenizer's ids";
  EXPECT_EQ(config.at("eos_token_id"), 3);

  ASSERT_EQ(
      run("generate out --prompt 'w1 w4 w7 w10 w13 <extra_id_0> w19 w2 w5 w8' --json > one.json"),
      0)
      << output_;
  expect("tokens/s, cache ");
  const auto one = json("one.json");
  EXPECT_EQ(one.at("ended"), "end");
  const std::string sentinel = "<extra_id_0> ";
  const auto answer = one.at("text").get<std::string>();
  ASSERT_TRUE(answer.starts_with(sentinel + "w")) << one;
  const auto word =
      answer.substr(sentinel.size(), answer.find(' ', sentinel.size()) - sentinel.size());
  ASSERT_EQ(
      run("generate out --prompt 'w1 w4 w7 w10 w13 <extra_id_0> w19 w2 w5 w8' --json --stop " +
          word + " > stop.json"),
      0);
  EXPECT_EQ(json("stop.json").at("text"), sentinel);
  EXPECT_EQ(json("stop.json").at("ended"), "stop");

  EXPECT_EQ(run("generate out --prompt ''"), 2);
  expect("prompt 1 is empty; expected text to go on from, or to answer");

  write_file(folder_ / "prompts.txt",
             "w1 w4 <extra_id_0> w13\nw2 <extra_id_0>\nw3 w6 <extra_id_0> w12 w15 <extra_id_1> w1\n"
             "w0 <extra_id_0> w6 w9\nw19 w2\n");
  const std::string drawn =
      "generate out --file prompts.txt --max-new-tokens 9 --temperature 2 --top-k 9 --stop 7 "
      "--stop 3 --seed 7 ";
  ASSERT_EQ(run(drawn + "--batch-size 2 > plain.txt"), 0);
  ASSERT_EQ(run(drawn + "--json | grep -c '\"stop\"' > stopped.txt"), 0) << "some end there";
  const auto texts = read_file(folder_ / "plain.txt");
  EXPECT_EQ(std::count(texts.begin(), texts.end(), '\n'), 5);
  for (const char* other :
       {"--batch-size 1", "--no-cache", "--nproc 2", "--strategy dp --replicas 2 --batch-size 1",
        "--batch-size 1 --nproc 2 --zero 1", "--batch-size 1 --nproc 2 --zero 2",
        "--batch-size 1 --nproc 2 --zero 3"}) {
    ASSERT_EQ(run(drawn + other + " > other.txt"), 0) << output_;
    EXPECT_EQ(read_file(folder_ / "other.txt"), texts) << other;
  }
  ASSERT_EQ(shell("$convoy " + drawn.substr(0, drawn.find("--seed")) + "--seed 8 > other.txt"), 0);
  EXPECT_NE(read_file(folder_ / "other.txt"), texts);

  ASSERT_EQ(shell("yes 'w1 w2' | head -100 > many.txt; $convoy generate out --file many.txt "
                  "--batch-size 100 --max-new-tokens 90000000"),
            2);
  expect("the cache of keys and values of 100 texts of 90000005 positions takes");
  // Tokens that nobody said take no memory, and who waits for so many knows why.
  const auto peak = [&](const char* most) {
    const auto ended = launch::run_process({CONVOY_BINARY_DIR "/bin/convoy", "generate",
                                            (folder_ / "out").string(), "--prompt",
                                            "w1 w4 <extra_id_0> w13", "--max-new-tokens", most});
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    output_ = ended.err;
    return ended.max_rss_bytes;
  };
  const auto few = peak("9");
  EXPECT_EQ(output_.find("warning"), std::string::npos) << output_;
  EXPECT_LT(peak("3000000"), few + (64 << 20)) << "192 MB of answers";
  expect("warning: --max-new-tokens 3000000 is beyond the 512 tokens of a usual t5 text");
  write_file(folder_ / "hidden.txt",
             "w0 w3 w6 w9 <extra_id_0>\nw1 w4 w7 w10 w13 <extra_id_0> w19 w2 w5 w8\n");
  ASSERT_EQ(run("predict out --data hidden.txt --output likely.csv"), 0) << output_;
  const auto likely = read_file(folder_ / "likely.csv");
  const auto line = "\n1,1,1," + word_of(one.at("ids").at(1).get<int>()) + ",";
  EXPECT_NE(likely.find(line), std::string::npos) << line << likely;
  EXPECT_EQ(std::count(likely.begin(), likely.end(), '\n'), 11);
  EXPECT_EQ(run("predict out"), 2);
  expect("there are no texts; try --data FILE, in which <extra_id_0> stands for what is wanted");
  EXPECT_EQ(run("predict out --data prompts.txt"), 2);
  expect("text 5 of prompts.txt has no <extra_id_0> to say something for: 'w19 w2'");
}

// Beside these files transformers takes the usual class of a T5, which reads others, unless it is
// told which one.
TEST_F(T5Command, ARunSaysWhatItsTokenizerIs) {
  write_file(folder_ / "gpt/vocab.json", R"({"w": 0, "1": 1, "w1": 2, "\u0120": 3, "\u010a": 4})");
  write_file(folder_ / "gpt/merges.txt", "#version: 0.2\nw 1\n");
  const auto one = kTiny + std::string("--data.tokenizer gpt --max_steps 1 --output_dir ");
  ASSERT_EQ(run(one + "out"), 0) << output_;
  EXPECT_EQ(json("out/tokenizer_config.json"), Json({{"tokenizer_class", "GPT2Tokenizer"}}));
  ASSERT_EQ(run("eval out"), 0) << output_;
  EXPECT_EQ(run("train out"), 2);
  expect("out is the folder of a run; try out/run.toml");
  write_file(folder_ / "gpt/tokenizer_config.json", R"({"model_max_length": 512})");
  ASSERT_EQ(run(one + "other"), 0) << output_;
  EXPECT_EQ(json("other/tokenizer_config.json"), Json({{"model_max_length", 512}}));
}

TEST_F(T5Command, BenchmarksTellPeakAndFloor) {
  write_file(folder_ / "run.toml", "[model]\nfamily = \"t5\"\n");
  const std::string options = std::string(kTiny).substr(std::string("train --family t5 ").size());
  ASSERT_EQ(
      shell("$convoy bench step run.toml " + options + "--steps 3 --warmup 1 --json > step.json"),
      0)
      << output_;
  const auto step = json("step.json");
  EXPECT_GT(step.at("peak_percent").get<double>(), 0);
  EXPECT_LT(step.at("peak_percent").get<double>(), 100);
  EXPECT_GT(step.at("floor_times").get<double>(), 1);
}

TEST_F(T5Command, RanksGiveWhatAccumulationGives) {
  const std::string base = std::string(kTiny) + "--max_steps 8 --dropout_rate 0.1 ";
  ASSERT_EQ(run(base + "--gradient_accumulation_steps 2 --output_dir one"), 0) << output_;
  const auto expected = read_file(folder_ / "one/model.safetensors");
  for (const char* stage : {"0", "3"}) {
    ASSERT_EQ(run(base + "--nproc 2 --overwrite_output_dir --output_dir two --zero " + stage), 0)
        << output_;
    EXPECT_EQ(read_file(folder_ / "two/model.safetensors"), expected) << stage;
  }
}

TEST_F(T5Command, RefusesOptionsThatDoNotFit) {
  const std::string base = std::string(kTiny) + "--max_steps 1 ";
  EXPECT_EQ(shell("$convoy " + base.substr(0, base.find("--eos")) +
                  "--data.train text.txt --data.tokenizer words"),
            2);
  expect("the tokenizer names no token that ends a text; try --eos_token_id ID");
  EXPECT_EQ(run(base + "--vocab_size 26 --block_size 64"), 2);
  expect("rows of block_size = 64 have 3 hidden spans, and there are 1 sentinels for them");
  for (const char* size : {"1", "2"}) {
    EXPECT_EQ(run(base + "--block_size " + size), 2);
    expect(std::string("block_size = ") + size + ": a row holds text, a token that stands for");
    expect("expected at least 3");
  }
  EXPECT_EQ(run(base + "--block_size 3"), 0) << output_;
  for (const char* part : {"0.95", "0"}) {
    EXPECT_EQ(run(base + "--mlm_probability " + part), 2);
    expect(std::string("data.mlm_probability = ") + part);
    expect("is out of range; expected between 0.001 and 0.9");
  }
  EXPECT_EQ(run(base + "--feed_forward_proj gated-rely"), 2);
  expect("gated-relu");
  for (const char* key : {"decoder_start_token_id", "eos_token_id", "pad_token_id"}) {
    EXPECT_EQ(run(base + "--output_dir never --" + key + " 500"), 2);
    expect(std::string(key) + " = 500 is not supported; expected 0 to 124, for vocab_size is 125");
  }
  EXPECT_FALSE(fs::exists(folder_ / "never"));
}

}  // namespace
}  // namespace convoy
