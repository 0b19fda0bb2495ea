#include <cmath>

#include "tests/cli/command_testing.h"
#include "tests/cli/ring_of_words.h"

namespace convoy {
namespace {

/// Trains on lines of words that follow each other in a ring, so there is something to learn.
class LanguageCommand : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    write_ring_of_words(folder_, 8);
  }

  static constexpr const char* kTiny =
      " --data.train text.txt --data.tokenizer words --block_size 16 --learning_rate 1e-2"
      " --logging_steps 20 ";
  static constexpr const char* kGpt2 =
      " --family gpt2 --n_embd 16 --n_layer 2 --n_head 2 --n_positions 32 ";
  static constexpr const char* kLlama =
      " --model_type llama --hidden_size 16 --intermediate_size 32 --num_hidden_layers 2"
      " --num_attention_heads 4 --num_key_value_heads 2 --max_position_embeddings 32 ";

  double last(const char* file, const char* key) const { return json(file).at(key).get<double>(); }
};

TEST_F(LanguageCommand, BothFamiliesLearnAndAreEvaluatedAsTheyWereTrained) {
  for (const char* family : {kGpt2, kLlama}) {
    ASSERT_EQ(run(std::string("train") + family + kTiny +
                  "--max_steps 120 --output_dir out --overwrite_output_dir"),
              0)
        << output_;
    expect("perplexity");
    const double loss = last("out/eval_results.json", "eval_loss");
    EXPECT_LT(loss, 1.0) << "log(25) is 3.2";
    EXPECT_GT(last("out/eval_results.json", "eval_accuracy"), 0.6);
    EXPECT_NEAR(last("out/eval_results.json", "eval_perplexity"), std::exp(loss), 1e-6);
    EXPECT_TRUE(fs::exists(folder_ / "out/vocab.txt")) << "the tokenizer stays with its model";
    // Also where the tokenizer that it was trained with is gone.
    ASSERT_EQ(
        shell("mv words moved && $convoy eval out --json > again.json; code=$?; mv moved words; "
              "exit $code"),
        0)
        << output_;
    EXPECT_DOUBLE_EQ(last("again.json", "eval_loss"), loss);
    EXPECT_EQ(json("out/config.json").at("vocab_size"), 25);
  }
}

TEST_F(LanguageCommand, RanksGiveWhatAccumulationGives) {
  const std::string base = std::string("train") + kGpt2 + kTiny + "--max_steps 12 --threads 1 ";
  ASSERT_EQ(run(base + "--gradient_accumulation_steps 2 --output_dir one"), 0) << output_;
  ASSERT_EQ(run(base + "--nproc 2 --output_dir two"), 0) << output_;
  EXPECT_EQ(read_file(folder_ / "one/model.safetensors"),
            read_file(folder_ / "two/model.safetensors"));
}

TEST_F(LanguageCommand, TokensInAFileGiveTheSameRun) {
  const std::string base = std::string("train") + kGpt2 + kTiny + "--max_steps 8 ";
  ASSERT_EQ(run(base + "--output_dir memory"), 0) << output_;
  ASSERT_EQ(run(base + "--output_dir file --memory_budget_mb 0"), 0) << output_;
  EXPECT_EQ(read_file(folder_ / "memory/model.safetensors"),
            read_file(folder_ / "file/model.safetensors"));
  ASSERT_EQ(shell("TMPDIR=nowhere $convoy " + base + "--memory_budget_mb 0"), 1);
  expect("cannot keep tokens in nowhere");
}

TEST_F(LanguageCommand, GoesOnFromAFolderOfWeights) {
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny + "--max_steps 60 --output_dir out"), 0);
  const double before = last("out/eval_results.json", "eval_loss");
  ASSERT_EQ(
      run("train --model_name_or_path out --data.train text.txt --block_size 16 --max_steps 1 "
          "--learning_rate 0 --output_dir more"),
      0)
      << output_;
  EXPECT_DOUBLE_EQ(last("more/eval_results.json", "eval_loss"), before);
  ASSERT_EQ(run("train --model_name_or_path out --random_tokens 500 --block_size 16 --max_steps 1 "
                "--learning_rate 0 --output_dir random"),
            0)
      << output_;
  EXPECT_EQ(read_file(folder_ / "random/model.safetensors"),
            read_file(folder_ / "out/model.safetensors"));
  EXPECT_EQ(json("random/config.json"), json("more/config.json"));
  ASSERT_EQ(run("train --model_name_or_path gpt2 --family gpt2 --data.train text.txt"), 2);
  expect("names of models on a hub are not fetched");
  ASSERT_EQ(run("train --model_name_or_path gpt2 --train_file text.txt"), 2);
  expect("model_name_or_path = gpt2 is no folder with config.json");
  ASSERT_EQ(run("train --family gpt2 --help"), 0);
  expect("--block_size");
}

TEST_F(LanguageCommand, TakesTheCommandLineOfRunClm) {
  const std::string files =
      " --train_file text.txt --validation_file valid.txt --per_device_train_batch_size 2 "
      "--per_device_eval_batch_size 2 --block_size 16 ";
  const std::string fresh = "train --model_type gpt2 --tokenizer_name words" + files;
  ASSERT_EQ(shell("head -50 text.txt > valid.txt; $convoy " + fresh +
                  "--config_overrides n_embd=16,n_layer=1,n_head=2,n_positions=32,resid_pdrop=0.2 "
                  "--do_train --do_eval --max_train_samples 6 --max_eval_samples 3 "
                  "--num_train_epochs 2 --overwrite_cache --preprocessing_num_workers 4 "
                  "--use_fast_tokenizer False --torch_dtype auto --keep_linebreaks true "
                  "--token secret --save_strategy epoch --output_dir out --overwrite_output_dir"),
            0)
      << output_;
  expect("without effect here: --overwrite_cache (no tokens are kept from run to run)");
  expect("--torch_dtype");
  for (const char* unsaid : {"secret", "--do_train", "--keep_linebreaks", "--do_eval"}) {
    EXPECT_EQ(output_.find(unsaid), std::string::npos) << output_;
  }
  EXPECT_EQ(json("out/config.json").at("n_embd"), 16);
  EXPECT_EQ(json("out/config.json").at("resid_pdrop"), 0.2);
  EXPECT_TRUE(fs::exists(folder_ / "out/checkpoint-6")) << "six blocks, two a step, twice";
  EXPECT_EQ(last("out/eval_results.json", "eval_samples"), 3);
  ASSERT_EQ(run("eval out"), 0) << output_;
  expect("at most 3 blocks of ");

  ASSERT_EQ(run("train --model_name_or_path out" + files +
                "--do_train --do_eval false --max_steps 1 --output_dir more"),
            0)
      << output_;
  EXPECT_FALSE(fs::exists(folder_ / "more/eval_results.json"));
  for (const char* place : {"out", "out/config.json"}) {
    ASSERT_EQ(run(std::string("train --config_name ") + place + " --tokenizer_name words" + files +
                  "--learning_rate 0 --max_steps 1 --output_dir drawn --overwrite_output_dir"),
              0)
        << output_;
    EXPECT_EQ(json("drawn/config.json").at("n_layer"), 1);
    EXPECT_NE(read_file(folder_ / "drawn/model.safetensors"),
              read_file(folder_ / "out/model.safetensors"));
  }

  EXPECT_EQ(run(fresh + "--do_train false"), 2);
  expect("--do_train false: convoy train always trains; try convoy eval FOLDER");
  EXPECT_EQ(run(fresh + "--keep_linebreaks False"), 2);
  expect("--keep_linebreaks false: the lines of .txt always keep their ends");
  EXPECT_EQ(run(fresh + "--dataset_name wikitext --dataset_config_name wikitext-2-raw-v1"), 2);
  expect("--dataset_name: data sets are not fetched; save it as .txt, .jsonl or .parquet");
  expect("to_parquet(\"train.parquet\"), then try --train_file train.parquet");
  EXPECT_EQ(run(fresh + "--config_name out --config_overrides n_embd=8"), 2);
  expect("model.config_overrides and model.config_name exclude each other");
  EXPECT_EQ(run("train --model_name_or_path out --config_overrides n_embd=8" + files), 2);
  expect("model.config_overrides and model.start exclude each other");
  EXPECT_EQ(run(fresh + "--config_overrides n_embed=8"), 2);
  expect("'n_embed=8' is no key of a gpt2 config with its value");
  expect("did you mean 'n_embd'?");
  EXPECT_EQ(run("train --model_type gpt2 --tokenizer_name gpt2" + files), 2);
  expect("data.tokenizer = gpt2 is no file or folder; tokenizers on a hub are not fetched");
  EXPECT_EQ(run(fresh + "--config_name gpt2"), 2);
  expect("model.config_name = gpt2 is no config.json, nor a folder with one; configs on a hub");
  EXPECT_EQ(run("train --config_name gpt2" + files), 2);
  expect("config_name = gpt2 is no folder with config.json; names of models on a hub");
}

TEST_F(LanguageCommand, IdsBringTheirVocabulary) {
  ASSERT_EQ(run("data tokenize text.txt --tokenizer words --output ids.parquet"), 0) << output_;
  const std::string train =
      std::string("train") + kGpt2 + "--data.train ids.parquet --block_size 16 --max_steps 1 ";
  ASSERT_EQ(run(train + "--output_dir out"), 0) << output_;
  EXPECT_EQ(json("out/config.json").at("vocab_size"), 25);
  ASSERT_EQ(run("eval out --data ids.parquet"), 0) << output_;
  ASSERT_EQ(shell("mkdir other; (head -5 words/vocab.txt; tail -n +6 words/vocab.txt | tac) > "
                  "other/vocab.txt; $convoy data tokenize text.txt --tokenizer other --output "
                  "other.parquet"),
            0)
      << output_;
  const std::string refused = "other.parquet is of another tokenizer (";
  EXPECT_EQ(run("eval out --data other.parquet"), 2);
  expect(refused);
  EXPECT_EQ(run(train + "--data.valid other.parquet"), 2);
  expect(refused);
  EXPECT_EQ(run("train out/run.toml --data.train other.parquet --output_dir again"), 0) << output_;
  ASSERT_EQ(run(train + "--vocab_size 40 --output_dir wide"), 0) << output_;
  EXPECT_EQ(json("wide/config.json").at("vocab_size"), 40);
  ASSERT_EQ(run(train + "--vocab_size 24"), 2);
  expect("ids.parquet is of a tokenizer with 25 ids, the model's vocab_size is 24");
}

TEST_F(LanguageCommand, BytesThatAreNotUtf8AreTold) {
  const std::string train = std::string("train") + kGpt2 + kTiny + "--max_steps 1 ";
  ASSERT_EQ(shell("printf 'w1 \\377 w2\\n\\376 w3\\n' >> text.txt; $convoy " + train +
                  "--output_dir out --nproc 2"),
            0)
      << output_;
  expect("warning: 2 places of text.txt are not UTF-8 and became U+FFFD\n");
  EXPECT_EQ(output_.find("U+FFFD"), output_.rfind("U+FFFD")) << "one rank says it: " << output_;
  ASSERT_EQ(shell("head -20 text.txt > valid.txt; printf '\\377' >> valid.txt; $convoy " + train +
                  "--data.train valid.txt --validation_split_percentage 0 --data.valid valid.txt "
                  "--block_size 8 --output_dir more; $convoy eval more"),
            0)
      << output_;
  expect("warning: 1 place of valid.txt is not UTF-8 and became U+FFFD\n");
  expect("/valid.txt is not UTF-8 and became U+FFFD\n");
}

TEST_F(LanguageCommand, BenchmarksTellPeakAndFloorAndLayOutTheGuidesTable) {
  write_file(folder_ / "run.toml", "[model]\nfamily = \"gpt2\"\n");
  const std::string options = std::string(kGpt2).substr(15) + kTiny;
  ASSERT_EQ(shell("$convoy bench step run.toml " + options +
                  "--steps 3 --warmup 1 --threads 1 --json > step.json"),
            0)
      << output_;
  const auto step = json("step.json");
  EXPECT_GT(step.at("peak_percent").get<double>(), 0);
  EXPECT_LT(step.at("peak_percent").get<double>(), 100);
  EXPECT_GT(step.at("floor_times").get<double>(), 1);
  ASSERT_EQ(run("bench strategies run.toml --per-device --strategies single,ddp --output bench " +
                options + "--max_steps 4 --threads 1 --per_device_train_batch_size 4"),
            0)
      << output_;
  expect("| fast link | train_runtime | steps/s | samples/s | epoch |");
  expect("| 1:single | -");
  expect("| 2:ddp    | yes");
  expect("| 2:ddp    | no");
  expect("101.9 s");
  expect("131.4 s");
  // Twice the devices see twice the samples, in as many steps.
  EXPECT_NEAR(json("bench/ddp-2/all_results.json").at("epoch").get<double>(),
              2 * json("bench/single-1/all_results.json").at("epoch").get<double>(), 0.02);
}

TEST_F(LanguageCommand, WhatAFolderHoldsAndLacksIsSaid) {
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny +
                "--max_steps 1 --output_dir out --max_shard_size 20KB"),
            0)
      << output_;
  EXPECT_TRUE(fs::exists(folder_ / "out/model.safetensors.index.json"));
  EXPECT_EQ(output_.find("warning"), std::string::npos) << output_;
  auto config = json("out/config.json");
  config["tie_word_embeddings"] = false;
  config["moon_phase"] = config["tide"] = 3;
  write_file(folder_ / "out/config.json", config.dump());
  const std::string keys =
      "warning: out/config.json has keys that mean nothing here, and are written back: "
      "moon_phase, tide\n";
  const std::string head = "warning: out holds no lm_head.weight: its values are drawn\n";
  ASSERT_EQ(run("eval out"), 0) << output_;
  expect(keys + head);
  ASSERT_EQ(
      run("train --model_name_or_path out --data.train text.txt --block_size 16 --max_steps 1 "
          "--output_dir more"),
      0)
      << output_;
  expect(keys + head);
  EXPECT_EQ(json("more/config.json").at("tide"), 3);
  EXPECT_FALSE(json("more/config.json").at("tie_word_embeddings").get<bool>());
  ASSERT_EQ(run("train --model_name_or_path out --family llama --data.train text.txt"), 1);
  expect("out/config.json describes a model of type \"gpt2\"; expected llama");
  // Without the key a person has to say it.
  config.erase("model_type");
  write_file(folder_ / "out/config.json", config.dump());
  ASSERT_EQ(run("train --model_name_or_path out --data.train text.txt"), 1);
  expect("out/config.json: model_type is missing; expected one of bert, gpt2, llama, t5; add it");
  ASSERT_EQ(run("train --model_name_or_path out --model_type gpt2 --data.train text.txt "
                "--block_size 16 --max_steps 1 --output_dir typed"),
            0)
      << output_;
  EXPECT_EQ(json("typed/config.json").at("model_type"), "gpt2");
}

TEST_F(LanguageCommand, GoesOnFromTextTheSameOnAnyNumberOfRanks) {
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
  EXPECT_EQ(run("generate out --prompt w1 --stop w2 --stop ''"), 2);
  expect("--stop = ''; expected some text");
  EXPECT_EQ(run("generate nowhere --prompt w1"), 2);
  expect("nowhere holds no trained model");
  EXPECT_EQ(shell("rm out/vocab.txt && $convoy generate out --prompt w1 --data.tokenizer=''"), 2);
  expect("out holds no tokenizer");
}

TEST_F(LanguageCommand, PredictsTheTokenThatGenerationTakes) {
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

TEST_F(LanguageCommand, WhatDoesNotFitIsSaid) {
  const std::string base = std::string("train") + kGpt2;
  EXPECT_EQ(run("train --family gpt3 --data.train text.txt"), 2);
  expect("model family 'gpt3' is unknown; expected one of session, bert, gpt2, ");
  EXPECT_EQ(run("train --family gpt2 --model_type=llama --data.train text.txt"), 2);
  expect("--family gpt2 and --model_type llama contradict each other; try one of them");
  EXPECT_EQ(run("eval nowhere --model.family bert --model-type t5"), 2);
  expect("--model.family bert and --model-type t5 contradict each other");
  EXPECT_EQ(run(base + kTiny + "--block_size 1"), 2);
  expect("block_size = 1: a row of one token has no next one to learn; expected at least 2");
  EXPECT_EQ(run(base + kTiny + "--model_type gpt2 --task language --block_size 2 --max_steps 1"), 0)
      << output_;
  EXPECT_EQ(run(base + kTiny + "--task tagging"), 2);
  expect("model.task = 'tagging' is unknown; expected one of language");
  EXPECT_EQ(run(base + "--data.train text.txt"), 2);
  expect("is text, and there is no tokenizer for it");
  EXPECT_EQ(run(base + "--data.train text.txt --data.tokenizer words --block_size 64"), 2);
  expect("block_size = 64 is beyond the model's 32 positions");
  EXPECT_EQ(run(base + "--data.train text.txt --data.tokenizer words --vocab_size 10"), 2);
  expect("the tokenizer has 25 ids, the model's vocab_size is 10");
  EXPECT_EQ(run(base + "--data.train text.txt --data.tokenizer words --d_model 8"), 2);
  expect("unknown option --d_model");
  write_file(folder_ / "short.txt", "w1 w2\n");
  EXPECT_EQ(run(base + "--data.train short.txt --data.tokenizer words"), 2);
  expect("gives no block");
  const std::string foreign =
      base + "--data.tokenizer words --block_size 16 --data.train foreign.txt ";
  EXPECT_EQ(shell("yes 'zebra quagga' | head -100 > foreign.txt; $convoy " + foreign), 2);
  expect("foreign.txt holds only tokens that the tokenizer does not know; try the tokenizer that");
  EXPECT_EQ(shell("echo w1 >> foreign.txt; $convoy " + foreign + "--max_steps 1"), 0) << output_;
  EXPECT_EQ(run(base + "--n_head 3" + kTiny), 2);
  expect("n_head");
  EXPECT_EQ(run(base + kTiny + "--n_embd 100000 --n_layer 4000"), 2);
  expect("[train] 4,000 layers take 1");
  expect("the whole model with gradient and AdamW's moments");
  EXPECT_EQ(run(base + kTiny + "--n_positions 90000000 --n_embd 100000"), 2);
  expect("[train] 90,000,000 positions take");
  EXPECT_EQ(run(base + kTiny + "--max_shard_size 5pounds"), 2);
  expect("max_shard_size = 5pounds; expected a size such as 5GB");
}

}  // namespace
}  // namespace convoy
