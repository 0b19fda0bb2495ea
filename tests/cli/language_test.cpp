#include <cmath>

#include "tests/cli/language_testing.h"

namespace convoy {
namespace {

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
  expect("without effect here: --overwrite_cache (tokens are not cached between runs)");
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

TEST_F(LanguageCommand, AFineTunedModelEndsItsTextsAsBefore) {
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny + "--max_steps 60 --output_dir out"), 0);
  write_file(folder_ / "out/generation_config.json",
             "{\"eos_token_id\": 8, \"max_new_tokens\": 9}");
  write_file(folder_ / "out/chat_template.jinja", "{{ messages }}");
  const std::string more =
      "train --model_name_or_path out --data.train text.txt --block_size 16 "
      "--learning_rate 0 --max_steps 1 --save_steps 1 --output_dir more ";
  ASSERT_EQ(run(more), 0) << output_;
  for (const char* folder : {"more", "more/checkpoint-1"}) {
    for (const char* name : {"generation_config.json", "chat_template.jinja"}) {
      EXPECT_EQ(read_file(folder_ / folder / name), read_file(folder_ / "out" / name)) << folder;
    }
  }
  // Words in another order: ids that mean something else to the model.
  ASSERT_EQ(shell("mkdir other && (head -5 words/vocab.txt; tail -20 words/vocab.txt | tac) > "
                  "other/vocab.txt"),
            0);
  ASSERT_EQ(run(more + "--overwrite_output_dir --tokenizer_name other"), 0) << output_;
  expect("learned the ids of its own tokenizer, and that of other");
  EXPECT_FALSE(fs::exists(folder_ / "more/chat_template.jinja")) << "of that tokenizer";
}

TEST_F(LanguageCommand, EpochsAreEpochsAfterAnotherBatch) {
  const auto train = [](int batch, int epochs) {
    return fmt::format(
        "train{}{}--output_dir out --per_device_train_batch_size {} "
        "--num_train_epochs {} --resume_from_checkpoint {}",
        kGpt2, kTiny, batch, epochs, epochs > 1 ? "latest" : "false");
  };
  const auto state = [&](const char* key) { return json("out/trainer_state.json").at(key); };
  ASSERT_EQ(run(train(8, 1)), 0) << output_;
  const auto small = state("global_step").get<int64_t>();
  ASSERT_EQ(run(train(32, 2)), 0) << output_;
  expect("was trained with 8 rows a step");
  EXPECT_EQ(state("epoch"), 2);
  const auto large = state("global_step").get<int64_t>() - small;
  EXPECT_EQ(large, (small + 3) / 4);
  ASSERT_EQ(run(train(32, 3)), 0) << output_;  // the same again, which counts from there
  EXPECT_EQ(state("epoch"), 3);
  EXPECT_EQ(state("global_step"), small + 2 * large);
  // From the middle of an epoch, whose rest has its own number of steps.
  for (const int stop : {1, 3}) {
    const auto first = train(8, 1) + " --overwrite_output_dir --save_steps 1 --save_total_limit 1 ";
    ASSERT_EQ(run(first + fmt::format("--max_steps {}", stop)), 0) << output_;
    ASSERT_EQ(run(train(32, 2)), 0) << output_;
    EXPECT_EQ(state("epoch"), 2) << stop;
    const auto rows = state("num_rows").get<int64_t>();
    EXPECT_EQ(state("global_step"), stop + (rows - 8 * stop + 31) / 32 + large) << stop;
  }
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

TEST_F(LanguageCommand, TellsWhichKeysAFolderAddsOrLacks) {
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
      "warning: out/config.json has keys without effect here, which are saved unchanged: "
      "moon_phase, tide\n";
  const std::string head = "warning: out has no lm_head.weight: it is initialised randomly\n";
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
  const std::string missing =
      "out/config.json: model_type is missing; expected one of bert, gemma2, gemma3_text, "
      "gemma4_text, gpt2, gpt_oss, granite, llama, ministral3, mistral, mixtral, olmo2, olmo3, "
      "olmo_hybrid, olmoe, phi3, qwen2, qwen2_moe, qwen3, qwen3_5_moe_text, qwen3_5_text, "
      "qwen3_moe, qwen3_next, smollm3, t5; add it";
  expect(missing);
  fs::create_directory(folder_ / "no_run");  // whose run.toml would say it
  write_file(folder_ / "no_run/config.json", config.dump());
  ASSERT_EQ(run("generate no_run --prompt a"), 1);
  expect("no_run/config.json: model_type is missing; expected one of bert, gemma2");
  ASSERT_EQ(run("train --model_name_or_path out --model_type gpt2 --data.train text.txt "
                "--block_size 16 --max_steps 1 --output_dir typed"),
            0)
      << output_;
  EXPECT_EQ(json("typed/config.json").at("model_type"), "gpt2");
}

TEST_F(LanguageCommand, RefusesOptionsThatDoNotFit) {
  const std::string base = std::string("train") + kGpt2;
  EXPECT_EQ(run("train --family gpt3 --data.train text.txt"), 2);
  expect("model family 'gpt3' is unknown; expected one of session, bert, gemma2, ");
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
  EXPECT_EQ(run(base + "--data.train nowhere.txt"), 1);
  expect("there is no file nowhere.txt; expected .txt, .jsonl, .parquet, .arrow");
  EXPECT_EQ(shell("cat text.txt | $convoy " + base + "--data.train /dev/stdin"), 1);
  expect("/dev/stdin is a pipe, which gives its texts only once");
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
  expect("the whole model with gradient and the optimizer's states");
  EXPECT_EQ(run(base + kTiny + "--n_positions 90000000 --n_embd 100000"), 2);
  expect("[train] 90,000,000 positions take");
  EXPECT_EQ(run(base + kTiny + "--max_shard_size 5pounds"), 2);
  expect("max_shard_size = 5pounds; expected a size such as 5GB");
}

}  // namespace
}  // namespace convoy
