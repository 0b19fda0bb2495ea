#include "tests/cli/language_testing.h"

namespace convoy {
namespace {

using GenerateCommand = LanguageCommand;

TEST_F(GenerateCommand, GoesOnFromTextTheSameOnAnyNumberOfRanks) {
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny + "--max_steps 100 --output_dir out"), 0);
  ASSERT_EQ(run("generate out --prompt 'w1 w4' --max-new-tokens 3 --json > one.json"), 0);
  expect("3 tokens in ");
  expect("tokens/s, cache ");
  const auto one = json("one.json");
  EXPECT_EQ(one.at("tokens"), 3);
  EXPECT_EQ(one.at("ended"), "length");
  const auto added = one.at("text").get<std::string>();
  EXPECT_EQ(one.at("prompt_ids"), Json({2, 6, 9, 3})) << "with what the tokenizer puts around it";
  EXPECT_EQ(one.at("ids").size(), 3u);
  for (const int id : one.at("ids")) {
    if (id < 5) continue;  // no word
    EXPECT_NE(added.find("w" + std::to_string(id - 5)), std::string::npos) << added;
  }
  ASSERT_EQ(run("generate out --prompt 'w1 w4' --max-new-tokens 3"), 0);
  expect("w1 w4" + added + "\n");
  const auto stop = added.substr(added.find_last_of(' ') + 1);
  ASSERT_EQ(run("generate out --prompt 'w1 w4' --max-new-tokens 9 --stop " + stop +
                " --json > stop.json"),
            0);
  EXPECT_EQ(json("stop.json").at("ended"), "stop");
  EXPECT_EQ(json("stop.json").at("text").get<std::string>().find(stop), std::string::npos);
  // The space in front of a word belongs to it only behind another.
  const auto first = added.substr(0, added.find(' ', 1));
  ASSERT_TRUE(first.starts_with(" w")) << added;
  ASSERT_EQ(run("generate out --prompt 'w1 w4' --max-new-tokens 9 --stop '" + first +
                "' --json > stop.json"),
            0);
  EXPECT_EQ(json("stop.json").at("ended"), "stop");
  EXPECT_EQ(json("stop.json").at("text"), "");

  write_file(folder_ / "prompts.txt", "w1\nw2 w5\nw3 w6 w9 w12\nw0 w3 w6\nw19 w2\n");
  const std::string drawn =
      "generate out --file prompts.txt --max-new-tokens 6 --temperature 2 --top-k 9 --stop 7 "
      "--seed 7 ";
  ASSERT_EQ(run(drawn + "> a.txt"), 0);
  ASSERT_EQ(run(drawn + "--batch-size 2 --nproc 2 > b.txt"), 0);
  ASSERT_EQ(run(drawn + "--no-cache > c.txt"), 0);
  ASSERT_EQ(run(drawn + "--seed 8 > d.txt"), 0);
  const auto texts = read_file(folder_ / "a.txt");
  EXPECT_EQ(std::count(texts.begin(), texts.end(), '\n'), 5);
  EXPECT_EQ(texts.find("7\n"), std::string::npos) << "texts end before what ends them";
  ASSERT_EQ(run(drawn + "--json | grep -c '\"stop\"' > stopped.txt"), 0) << "some end there";
  EXPECT_EQ(read_file(folder_ / "b.txt"), texts);
  EXPECT_EQ(read_file(folder_ / "c.txt"), texts);
  for (const char* stage : {"1", "2", "3"}) {
    ASSERT_EQ(run(drawn + "--batch-size 1 --nproc 2 --zero " + stage + " > zero.txt"), 0);
    EXPECT_EQ(read_file(folder_ / "zero.txt"), texts) << stage;
  }
  EXPECT_NE(read_file(folder_ / "d.txt"), texts);

  // As editors of other systems write it.
  write_file(folder_ / "crlf.txt", "\xEF\xBB\xBFw1 w4\r\nw2 w5\r\n");
  ASSERT_EQ(run("generate out --file crlf.txt --max-new-tokens 1 --json > crlf.jsonl"), 0);
  const auto lines = split(read_file(folder_ / "crlf.jsonl"), '\n');
  EXPECT_EQ(parse_json(lines.at(0), "crlf.jsonl").at("prompt"), "w1 w4");
  EXPECT_EQ(parse_json(lines.at(1), "crlf.jsonl").at("prompt"), "w2 w5");

  // The largest cache is that of the second text, which rank 1 has.
  write_file(folder_ / "two.txt", "w1\nw3 w6 w9 w12 w15 w18 w1 w4\n");
  const auto cache = [&](const char* ranks) {
    EXPECT_EQ(run(std::string("generate out --file two.txt --max-new-tokens 2 --batch-size 1 ") +
                  ranks + " > /dev/null"),
              0);
    const auto at = output_.find("tokens/s, cache ");
    return at == std::string::npos ? output_ : output_.substr(at, output_.find('\n', at) - at);
  };
  EXPECT_EQ(cache("--nproc 2"), cache(""));

  EXPECT_EQ(run("generate out"), 2);
  expect("there is nothing to go on from");
  EXPECT_EQ(run("generate out --file words"), 1);
  expect("cannot read words: it is a folder");
  EXPECT_EQ(run("predict out"), 2);
  expect("there are no texts; try --data FILE: .txt (a text a line), .jsonl or .parquet");
  EXPECT_EQ(run("generate out --prompt zebra"), 2);
  expect("prompt 1 has only tokens that the tokenizer does not know: 'zebra'");
  for (const char* nothing : {"''", "' '"}) {
    EXPECT_EQ(run(std::string("generate out --prompt w1 --prompt ") + nothing), 2);
    expect("prompt 2 is empty; expected text to go on from");
  }
  EXPECT_EQ(run("generate out --prompt w1 --temperature 0"), 2);
  expect("--temperature = 0; expected more than 0");
  EXPECT_EQ(shell("$convoy generate out --prompt \"$(yes w1 | head -40 | tr '\\n' ' ')\""), 2);
  expect("prompt 1 has 42 tokens, the model's context 32 positions");
  EXPECT_EQ(run("generate out --prompt w1 --max-new-tokens 90000000 > /dev/null"), 0)
      << "the context is the end";
  EXPECT_EQ(run("generate out --prompt w1 --batch-size 9223372036854775807 > /dev/null"), 0)
      << "no memory is taken for prompts that are not there";
  EXPECT_EQ(run("generate out --prompt w1 --stop w2 --stop ''"), 2);
  expect("--stop = ''; expected some text");
  EXPECT_EQ(run("generate out --prompt w1 --tokenizer words --learning_rate 1 --block_size 4 "
                "--threads 1 --seed 3"),
            0)
      << output_;
  expect("without effect here: --tokenizer (out has its own), --block_size, --learning_rate\n");
  EXPECT_EQ(run("eval out --block_size 8 --warmup_steps 3"), 0) << output_;
  expect("without effect here: --warmup_steps\n");
  EXPECT_EQ(run("generate nowhere --prompt w1"), 2);
  expect("nowhere holds no trained model");
  EXPECT_EQ(shell("rm out/vocab.txt && $convoy generate out --prompt w1 --data.tokenizer=''"), 2);
  expect("out holds no tokenizer");
}

TEST_F(GenerateCommand, CachesTheWindowAloneOfLayersThatHaveOne) {
  constexpr int64_t kNew = 300, kWindow = 5, kWidth = 12;  // of all heads of keys
  ASSERT_EQ(
      run("train --model_type gemma3_text --hidden_size 16 --intermediate_size 20 "
          "--num_hidden_layers 2 --num_attention_heads 4 --num_key_value_heads 2 --head_dim 6 "
          "--sliding_window 5 --sliding_window_pattern 2 --query_pre_attn_scalar 6 "
          "--max_position_embeddings 400 --max_steps 100 --output_dir out" +
          std::string(kTiny)),
      0)
      << output_;
  write_file(folder_ / "prompts.txt", "w1\nw3 w6 w9 w12\n");
  const auto drawn =
      fmt::format("generate out --file prompts.txt --max-new-tokens {} --temperature 2 ", kNew);
  ASSERT_EQ(run(drawn + "> cached.txt"), 0);
  const int64_t positions = 6 + kNew, of_window = kWindow + 128;  // with what surrounds a text
  expect("cache " + human_bytes(2 * 2 * kWidth * 4 * (positions + of_window)));
  ASSERT_EQ(run(drawn + "--no-cache > whole.txt"), 0);
  EXPECT_EQ(read_file(folder_ / "cached.txt"), read_file(folder_ / "whole.txt"));
}

TEST_F(GenerateCommand, TakesPromptsAsTheyAreGiven) {
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny + "--max_steps 5 --output_dir out"), 0);
  const std::string one = "generate out --max-new-tokens 1 --json ";
  for (const char* prompt : {"-- w1", "--seed w1", "--json w1", "-w1", "--seed=w1"}) {
    SCOPED_TRACE(prompt);
    ASSERT_EQ(run(one + "--prompt '" + prompt + "' --seed 3 > out.jsonl"), 0) << output_;
    EXPECT_EQ(json("out.jsonl").at("prompt"), prompt);
  }
  EXPECT_EQ(run(one + "--prompt w1 --stop -- > out.jsonl"), 0) << output_;
  EXPECT_EQ(run(one + "--prompt"), 2);
  EXPECT_EQ(run(one + "--prompt w1 --promt w2"), 2);
  expect("unknown option --promt");

  // What flows is read once.
  ASSERT_EQ(shell("mkfifo pipe; (echo w1; echo w2) > pipe & timeout 60 $convoy " + one +
                  "--file pipe > out.jsonl"),
            0)
      << output_;
  EXPECT_EQ(split(read_file(folder_ / "out.jsonl"), '\n').size(), 3u);
}

TEST_F(GenerateCommand, LeavesOutTokensThatTheTokenizerLacks) {
  ASSERT_EQ(
      run(std::string("train") + kGpt2 + kTiny + "--vocab_size 200 --max_steps 1 --output_dir out"),
      0)
      << output_;
  const std::string drawn = "generate out --prompt w1 --max-new-tokens 20 --temperature 50 --json ";
  ASSERT_EQ(run(drawn + "> some.json"), 0) << output_;
  expect("none of the tokenizer's 25, and left out of the text: the model's vocab_size is 200");
  size_t words = 0, nameless = 0;
  const auto said = json("some.json");
  for (const int id : said.at("ids")) {
    nameless += id >= 25;
    words += id >= 5 && id < 25;
  }
  EXPECT_GT(nameless, 0u);
  const auto text = said.at("text").get<std::string>();
  EXPECT_EQ(std::count(text.begin(), text.end(), 'w'), static_cast<std::ptrdiff_t>(words)) << text;
  ASSERT_EQ(run(drawn + "--stop w77 --nproc 2 > ranks.json"), 0) << output_;
  EXPECT_EQ(json("ranks.json").at("ids"), said.at("ids"));
}

TEST_F(GenerateCommand, GoesOnAsTheModelsGenerationConfigSays) {
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny + "--max_steps 5 --output_dir out"), 0);
  const std::string go_on = "generate out --prompt 'w1 w4' ";
  ASSERT_EQ(run(go_on + "> best.txt"), 0) << output_;
  ASSERT_EQ(run(go_on + "--temperature 2 --top-k 9 --top-p 0.9 --max-new-tokens 6 > drawn.txt"), 0);
  write_file(folder_ / "out/generation_config.json",
             R"({"_from_model_config": true, "do_sample": true, "temperature": 2.0, "top_k": 9,
                 "top_p": 0.9, "max_new_tokens": 6, "repetition_penalty": 1.5, "num_beams": 1,
                 "transformers_version": "5.0.0", "suppress_tokens": [7]})");
  ASSERT_EQ(run(go_on + "> said.txt"), 0) << output_;
  expect("says max_new_tokens = 6, do_sample = true, temperature = 2.0, top_k = 9, top_p = 0.9");
  expect("asks for what generate does not do: repetition_penalty = 1.5, suppress_tokens = [7]");
  EXPECT_EQ(output_.find("num_beams"), std::string::npos) << output_;
  EXPECT_EQ(read_file(folder_ / "said.txt"), read_file(folder_ / "drawn.txt"));
  EXPECT_NE(read_file(folder_ / "said.txt"), read_file(folder_ / "best.txt"));
  ASSERT_EQ(run(go_on + "--do-sample=false --max-new-tokens 50 > typed.txt"), 0) << output_;
  EXPECT_EQ(read_file(folder_ / "typed.txt"), read_file(folder_ / "best.txt"));
  ASSERT_EQ(run(go_on + "--max-new-tokens 2 --json > two.json"), 0) << output_;
  EXPECT_EQ(json("two.json").at("tokens"), 2);
  EXPECT_EQ(run(go_on + "--do-sample=false --top-k 3"), 2);
  expect("top_k has no effect with --do-sample=false");

  // Without do_sample the rest of it says nothing.
  write_file(folder_ / "out/generation_config.json",
             R"({"temperature": 0, "top_k": null, "stop_strings": "w"})");
  ASSERT_EQ(run(go_on + "--json > stop.json"), 0) << output_;
  EXPECT_EQ(json("stop.json").at("ended"), "stop");
  ASSERT_EQ(run(go_on + "--stop nowhere > typed.txt"), 0) << output_;
  EXPECT_EQ(read_file(folder_ / "typed.txt"), read_file(folder_ / "best.txt"));
  for (const char* bad : {R"("do_sample": "yes")", R"("do_sample": true, "temperature": 0)",
                          R"("max_new_tokens": 1.5)", R"("stop_strings": [""])",
                          R"("eos_token_id": "</s>")", R"("eos_token_id": [3, 1.5])"}) {
    write_file(folder_ / "out/generation_config.json", "{" + std::string(bad) + "}");
    EXPECT_EQ(run(go_on), 1) << bad;
    expect("generation_config.json: ");
  }
  write_file(folder_ / "out/generation_config.json", "[]");
  EXPECT_EQ(run(go_on), 1);
  expect("generation_config.json holds array; expected an object");
  write_file(folder_ / "out/generation_config.json", R"({"eos_token_id": [100000]})");
  ASSERT_EQ(run(go_on), 0) << output_;
  expect("eos_token_id = 100000 is no id of this model");
  auto odd = json("out/config.json");
  const auto said = odd;
  odd["eos_token_id"] = 1.5;  // not only where generation_config.json leaves it to config.json
  write_file(folder_ / "out/config.json", odd.dump());
  EXPECT_EQ(run(go_on), 1);
  expect("config.json: eos_token_id = 1.5; expected an id, or a list of ids");
  write_file(folder_ / "out/config.json", said.dump());
  // Nobody said that of these: 50256 is the end of GPT-2's own texts.
  write_file(folder_ / "out/generation_config.json", R"({"max_length": 20})");
  auto config = json("out/config.json");
  config["eos_token_id"] = 50256;
  write_file(folder_ / "out/config.json", config.dump());
  ASSERT_EQ(run(go_on), 0) << output_;
  for (const char* unsaid : {"eos_token_id", "max_length"}) {
    EXPECT_EQ(output_.find(unsaid), std::string::npos) << output_;
  }
  write_file(folder_ / "out/generation_config.json", R"({"max_length": 64})");
  ASSERT_EQ(run(go_on), 0) << output_;
  expect("asks for what generate does not do: max_length = 64");
}

TEST_F(GenerateCommand, PredictsTheTokenThatGenerationTakes) {
  write_file(folder_ / "texts.txt", "w1 w4\nw3 w6 w9 w12 w15 w18\nw5\n");
  for (const char* family : {kGpt2, kLlama}) {
    ASSERT_EQ(run(std::string("train") + family + kTiny +
                  "--max_steps 20 --output_dir out --overwrite_output_dir"),
              0)
        << output_;
    ASSERT_EQ(run("generate out --file texts.txt --max-new-tokens 1 --json > next.jsonl"), 0);
    ASSERT_EQ(run("predict out --data texts.txt --top-k 2 --output likely.csv"), 0) << output_;
    expect("wrote likely.csv (3 texts)");
    const auto likely = read_file(folder_ / "likely.csv");
    EXPECT_TRUE(likely.starts_with("row,mask,rank,token,score\n")) << likely;
    EXPECT_EQ(std::count(likely.begin(), likely.end(), '\n'), 7);
    const auto next = split(read_file(folder_ / "next.jsonl"), '\n');
    for (size_t row = 0; row < 3; ++row) {
      const auto ids = parse_json(next.at(row), "next.jsonl").at("ids");
      const auto id = ids.empty() ? json("out/config.json").at("eos_token_id") : ids[0];
      const auto line = "\n" + std::to_string(row) + ",1,1," + word_of(id.get<int>()) + ",";
      EXPECT_NE(likely.find(line), std::string::npos) << line << likely;
    }
  }
  ASSERT_EQ(run("predict out --data texts.txt --rows 1"), 0) << output_;
  expect("w1 w4\nrow 0, next\n    1. ");
  write_file(folder_ / "blank.txt", "w1\n \n");
  EXPECT_EQ(run("predict out --data blank.txt"), 2);
  expect("text 2 of blank.txt is empty; expected text to go on from");
}

TEST_F(GenerateCommand, ReadsPipesOnceForAllRanks) {
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny + "--max_steps 20 --output_dir out"), 0)
      << output_;
  write_file(folder_ / "prompts.txt", "w1 w4\nw2 w5\nw3\n");
  const std::string rest = " --max-new-tokens 2 > ";
  ASSERT_EQ(run("generate out --file prompts.txt" + rest + "plain.txt"), 0) << output_;
  const auto texts = read_file(folder_ / "plain.txt");
  for (const std::string piped :
       {"cat prompts.txt | $convoy generate out --file -",
        "$convoy generate out --file - < prompts.txt",
        "cat prompts.txt | $convoy generate out --file=/dev/stdin --nproc 2",
        "bash -c '\"$0\" generate out --file <(cat prompts.txt) --nproc 2 \"$@\"' $convoy"}) {
    ASSERT_EQ(shell(piped + rest + "piped.txt"), 0) << piped << output_;
    EXPECT_EQ(read_file(folder_ / "piped.txt"), texts) << piped;
  }
  EXPECT_EQ(shell("cat prompts.txt | $convoy launch -n 2 generate out --file -"), 2) << output_;
  expect("--file - is no file, and only one of the ranks could read it; try a file, or --nproc");

  ASSERT_EQ(run("predict out --data prompts.txt --output plain.csv"), 0) << output_;
  ASSERT_EQ(shell("cat prompts.txt | $convoy predict out --data - --output piped.csv"), 0)
      << output_;
  EXPECT_EQ(read_file(folder_ / "piped.csv"), read_file(folder_ / "plain.csv"));
  ASSERT_EQ(run("eval out --data text.txt --json > plain.json"), 0) << output_;
  ASSERT_EQ(shell("cat text.txt | $convoy eval out --data - --json > piped.json"), 0) << output_;
  EXPECT_EQ(json("piped.json").at("eval_loss"), json("plain.json").at("eval_loss"));
  ASSERT_EQ(run("data tokenize text.txt --tokenizer words -o plain.parquet"), 0) << output_;
  ASSERT_EQ(shell("cat text.txt | $convoy data tokenize - --tokenizer words -o piped.parquet"), 0)
      << output_;
  EXPECT_EQ(read_file(folder_ / "piped.parquet"), read_file(folder_ / "plain.parquet"));

  // Where the predictions go may be a link.
  ASSERT_EQ(shell("ln -s plain.csv link.csv && echo > plain.csv && "
                  "$convoy predict out --data prompts.txt --output link.csv"),
            0)
      << output_;
  EXPECT_TRUE(fs::is_symlink(folder_ / "link.csv"));
  EXPECT_EQ(read_file(folder_ / "plain.csv"), read_file(folder_ / "piped.csv"));

  write_file(folder_ / "blank.txt", "\nw1 w4\n \nw2 w5\nw3\n\n");
  ASSERT_EQ(run("generate out --file blank.txt --max-new-tokens 2 2> told.txt > blank.out"), 0);
  EXPECT_EQ(read_file(folder_ / "blank.out"), texts);
  EXPECT_NE(read_file(folder_ / "told.txt").find("passed over 3 blank lines of blank.txt"),
            std::string::npos);
  write_file(folder_ / "odd.txt", "\nw1\nzebra\n");
  EXPECT_EQ(run("generate out --file odd.txt"), 2);
  expect("line 3 of odd.txt has only tokens that the tokenizer does not know: 'zebra'");
  write_file(folder_ / "empty.txt", "\n\n");
  EXPECT_EQ(run("generate out --file empty.txt"), 2);
  expect("there is nothing to go on from");
  fs::create_symlink("/proc/self/mem", folder_ / "broken.txt");
  EXPECT_EQ(run("generate out --file broken.txt"), 1);
  expect("cannot read broken.txt to its end: ");
}

}  // namespace
}  // namespace convoy
