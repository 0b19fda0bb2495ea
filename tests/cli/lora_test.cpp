#include "tests/cli/classification_testing.h"
#include "tests/cli/language_testing.h"

namespace convoy {
namespace {

using LoraCommand = LanguageCommand;

constexpr const char* kLora = " --lora_r 4 --lora_alpha 8 --lora_dropout 0.1 ";
constexpr const char* kFromBase =
    "train --model_name_or_path base --data.train text.txt --block_size 16 --learning_rate 2e-2"
    " --logging_steps 1 --threads 1 ";

TEST_F(LoraCommand, LearnsAndIsEvaluatedGeneratedFromAndMerged) {
  for (const char* family : {kGpt2, kLlama}) {
    ASSERT_EQ(shell("rm -rf base lora merged"), 0);
    ASSERT_EQ(run(std::string("train") + family + kTiny + "--max_steps 5 --output_dir base"), 0)
        << output_;
    ASSERT_EQ(run(kFromBase + std::string(kLora) + "--max_steps 60 --output_dir lora"), 0)
        << output_;
    const double loss = last("lora/eval_results.json", "eval_loss");
    EXPECT_LT(loss, last("base/eval_results.json", "eval_loss"));
    EXPECT_TRUE(fs::exists(folder_ / "lora/adapter_model.safetensors"));
    EXPECT_FALSE(fs::exists(folder_ / "lora/model.safetensors"));
    EXPECT_EQ(json("lora/adapter_config.json").at("peft_type"), "LORA");
    EXPECT_EQ(json("lora/adapter_config.json").at("base_model_name_or_path"),
              fs::absolute(folder_ / "base").string());
    ASSERT_EQ(run("eval lora --json > again.json"), 0) << output_;
    EXPECT_DOUBLE_EQ(last("again.json", "eval_loss"), loss);
    ASSERT_EQ(run("generate lora --prompt \"w1 w2\" --max-new-tokens 3"), 0) << output_;
    ASSERT_EQ(run("checkpoint verify lora"), 0) << output_;
    ASSERT_EQ(run("checkpoint merge lora --output merged"), 0) << output_;
    ASSERT_EQ(run("eval merged --data text.txt --json > merged.json"), 0) << output_;
    ASSERT_EQ(run("eval lora --data text.txt --json > again.json"), 0) << output_;
    EXPECT_NEAR(last("merged.json", "eval_loss") / last("again.json", "eval_loss"), 1, 1e-5);
  }
}

TEST_F(LoraCommand, IsVerified) {
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny + "--max_steps 2 --output_dir base"), 0)
      << output_;
  write_file(folder_ / "run.toml", "");
  const std::string verify =
      "verify run.toml --model_name_or_path base --data.train text.txt --block_size 16 --threads 1 "
      "--per_device_train_batch_size 2 --learning_rate 1e-2 --steps 2 " +
      std::string(kLora);
  for (const auto& [layout, fault] : {std::pair{"--nproc 2", "double@1:reduce:1"},
                                      std::pair{"--tensor_parallel_size 2", "double@1:layer:1"}}) {
    ASSERT_EQ(run(verify + layout), 0) << output_;
    expect("holds");
    EXPECT_EQ(shell(fmt::format("CONVOY_FAULT={} $convoy {}{}", fault, verify, layout)), 1)
        << output_;
    expect("BROKEN");
  }
  EXPECT_EQ(run(verify + "--against transformers --python ./nothing"), 2);
  expect("got lora_r = 4; try --lora_r 0");
}

TEST_F(LoraCommand, ResumesWithTheBitsOfARunThatWasNotStopped) {
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny + "--max_steps 5 --output_dir base"), 0);
  const std::string base = kFromBase + std::string(kLora) + "--save_steps 6 --save_strategy steps ";
  ASSERT_EQ(run(base + "--max_steps 12 --lr_scheduler_type constant --output_dir whole"), 0)
      << output_;
  ASSERT_EQ(run(base + "--max_steps 6 --lr_scheduler_type constant --output_dir half"), 0)
      << output_;
  EXPECT_TRUE(fs::exists(folder_ / "half/checkpoint-6/adapter_model.safetensors"));
  EXPECT_TRUE(fs::exists(folder_ / "half/checkpoint-6/adapter_config.json"));
  ASSERT_EQ(run(base + "--max_steps 12 --lr_scheduler_type constant --output_dir half "
                       "--resume_from_checkpoint latest"),
            0)
      << output_;
  EXPECT_EQ(read_file(folder_ / "half/adapter_model.safetensors"),
            read_file(folder_ / "whole/adapter_model.safetensors"));
  ASSERT_EQ(run(base + "--max_steps 18 --lora_alpha 9 --output_dir half "
                       "--resume_from_checkpoint latest"),
            2);
  expect("holds another adapter: this run has lora_alpha = 9 instead of 8");
  ASSERT_EQ(run(kFromBase + std::string("--max_steps 18 --output_dir half ") +
                "--resume_from_checkpoint latest"),
            2);
  expect("holds an adapter, and this run trains the whole model; try the same lora options");
  // Two ranks of ZeRO 3 go on, too.
  ASSERT_EQ(run(base + "--max_steps 14 --output_dir half --resume_from_checkpoint latest --nproc 2 "
                       "--zero 3 --gradient_accumulation_steps 1"),
            0)
      << output_;
}

TEST_F(LoraCommand, GoesOnBesideTheWeightsThatItBeganWith) {
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny + "--max_steps 5 --output_dir base"), 0);
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny + "--max_steps 6 --output_dir other"), 0);
  const std::string rest =
      std::string(kLora) + "--data.train text.txt --block_size 16 --threads 1 ";
  const std::string first = "train --model_name_or_path base" + rest + "--output_dir lora ";
  ASSERT_EQ(run(first + "--max_steps 4"), 0) << output_;
  const std::string more = "--max_steps 6 --resume_from_checkpoint latest ";
  EXPECT_EQ(run("train --model_name_or_path other" + rest + "--output_dir lora " + more), 2);
  expect("the adapter in lora/checkpoint-4 was trained on other weights than this run's base");
  // A base that was moved is the same one; one that was written over is not.
  fs::rename(folder_ / "base", folder_ / "moved");
  ASSERT_EQ(run("train --model_name_or_path moved" + rest + "--output_dir lora " + more), 0)
      << output_;
  fs::copy_file(folder_ / "other/model.safetensors", folder_ / "moved/model.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_EQ(run("train --model_name_or_path moved" + rest +
                "--output_dir lora --nproc 2 --zero 3 "
                "--max_steps 8 --resume_from_checkpoint latest"),
            2);
  expect("try the base that it began with, or start anew");
}

TEST_F(LoraCommand, IsReadBesideTheWeightsThatItWasTrainedWithOnly) {
  for (const char* folder : {"base --max_steps 5", "other --max_steps 6"}) {
    ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny + "--output_dir " + folder), 0) << output_;
  }
  ASSERT_EQ(run(kFromBase + std::string(kLora) + "--max_steps 4 --output_dir lora"), 0) << output_;
  const std::string more =
      "train --data.train text.txt --block_size 16 --max_steps 1 --output_dir more "
      "--adapter_name_or_path lora --model_name_or_path ";
  EXPECT_EQ(run(more + "other"), 1);
  expect("the adapter in lora was trained beside other weights than those in");
  // A copy in bf16 elsewhere is the same model.
  ASSERT_EQ(run("checkpoint export base half --dtype bf16"), 0) << output_;
  ASSERT_EQ(run(more + "half"), 0) << output_;
  fs::copy_file(folder_ / "other/model.safetensors", folder_ / "base/model.safetensors",
                fs::copy_options::overwrite_existing);
  for (const char* command : {"eval lora", "generate lora --prompt w1 --max-new-tokens 2",
                              "checkpoint merge lora --output merged"}) {
    EXPECT_EQ(run(command), 1) << command;
    expect("try the model that it began with");
  }
  EXPECT_FALSE(fs::exists(folder_ / "merged"));
  // As PEFT's folders, which do not tell.
  fs::remove(folder_ / "lora/base_fingerprint.json");
  EXPECT_EQ(run("checkpoint merge lora --output merged"), 0) << output_;
}

TEST_F(LoraCommand, GoesOnFromAnAdapter) {
  ASSERT_EQ(run(std::string("train") + kLlama + kTiny + "--max_steps 5 --output_dir base"), 0);
  ASSERT_EQ(run(kFromBase + std::string(kLora) + "--max_steps 20 --output_dir lora"), 0) << output_;
  // As PEFT leaves it: nothing but its two files.
  ASSERT_EQ(shell("mkdir peft && cp lora/adapter_* peft"), 0);
  ASSERT_EQ(run("train --adapter_name_or_path peft --data.train text.txt --block_size 16 "
                "--learning_rate 0 --max_steps 1 --output_dir more"),
            0)
      << output_;
  EXPECT_EQ(read_file(folder_ / "more/adapter_model.safetensors"),
            read_file(folder_ / "lora/adapter_model.safetensors"));
  ASSERT_EQ(run("eval peft --data text.txt --block_size 16 --json > of_peft.json"), 0) << output_;
  ASSERT_EQ(run("eval lora --data text.txt --json > of_run.json"), 0) << output_;
  EXPECT_EQ(last("of_peft.json", "eval_loss"), last("of_run.json", "eval_loss"));
}

TEST_F(LoraCommand, ExpertsThatTransformersRenamesAreNotSavedBesideAdapters) {
  const std::string sizes =
      " --hidden_size 16 --intermediate_size 16 --num_hidden_layers 1 "
      "--num_attention_heads 4 --num_key_value_heads 2 --num_experts_per_tok 1 ";
  const auto refused = [&](const std::string& family, const std::string& module) {
    SCOPED_TRACE(family);
    ASSERT_EQ(run("train --model_type " + family + sizes + kTiny +
                  "--max_steps 1 --output_dir base --overwrite_output_dir"),
              0)
        << output_;
    ASSERT_EQ(run(kFromBase + ("--lora_r 2 --max_steps 1 --modules_to_save " + module)), 2)
        << output_;
    expect("." + module + ", for which PEFT has no name");
  };
  refused("mixtral --num_local_experts 2", "block_sparse_moe.gate");
  refused("qwen3_moe --num_experts 2 --moe_intermediate_size 16", "experts.1.up_proj");
}

TEST_F(LoraCommand, SaysWhatIsWrong) {
  ASSERT_EQ(run(std::string("train") + kGpt2 + kTiny + "--max_steps 1 --output_dir base"), 0);
  const auto fails = [&](const std::string& options, const std::string& message, int code = 2) {
    ASSERT_EQ(run(kFromBase + options + " --max_steps 1 --output_dir out"), code) << output_;
    expect(message);
  };
  fails("--lora_r 4 --lora_target_modules q_proj",
        "no matrix of the model is named q_proj; expected some of c_attn, c_fc, c_proj");
  fails("--lora_r 4 --lora_target_modules '(c_attn'", "is no regular expression");
  fails("--lora_r 4 --modules_to_save score", "modules_to_save = score matches nothing");
  fails("--lora_alpha 4", "lora_alpha has no effect: no adapters are trained; try --lora_r 8");
  ASSERT_EQ(run("train --family gpt2 --lora_r 4 --random_tokens 500 --max_steps 1"), 2);
  expect("adapters need a model that they adapt");
  ASSERT_EQ(run(kFromBase + std::string("--lora_r 2 --max_steps 1 --output_dir out")), 0);
  ASSERT_EQ(shell("mkdir peft && cp out/adapter_* peft"), 0);
  ASSERT_EQ(run("train --model_name_or_path peft --data.train text.txt --max_steps 1"), 2);
  expect("model.start = peft is an adapter; try --adapter_name_or_path peft to train it further");
  ASSERT_EQ(shell("sed -i 's/\"use_dora\": false/\"use_dora\": true/' out/adapter_config.json"), 0);
  ASSERT_EQ(run("eval out --data text.txt"), 1);
  expect("settings that are not supported: use_dora = true");
  ASSERT_EQ(shell("sed -i 's/\"use_dora\": true/\"use_dora\": false/' out/adapter_config.json; "
                  "mv base elsewhere; $convoy eval out --data text.txt"),
            1);
  expect("which is no folder with config.json and model.safetensors");
}

TEST_F(ClassificationCommand, TrainsAdaptersAndTheWholeHead) {
  ASSERT_EQ(run(std::string(kTask) + kTiny + "--max_steps 1 --output_dir base"), 0) << output_;
  ASSERT_EQ(run(std::string(kTask) +
                " --model_name_or_path base --lora_r 8 --lora_target_modules query,value,dense "
                "--learning_rate 2e-2 --max_steps 150 --output_dir lora"),
            0)
      << output_;
  const auto adapter = json("lora/adapter_config.json");
  EXPECT_EQ(adapter.at("task_type"), "SEQ_CLS");
  EXPECT_EQ(adapter.at("modules_to_save"), Json({"classifier"}));
  ASSERT_EQ(run("eval lora --data valid.tsv --json > again.json"), 0) << output_;
  EXPECT_GT(json("again.json").at("eval_accuracy").get<double>(), 0.7);
}

TEST_F(ClassificationCommand, AFrozenModuleThatTheBaseLacksIsNamed) {
  ASSERT_EQ(shell("for i in 1 2 3 4 5 6 7 8; do echo good w1 bad w2 w3; done > text.txt"), 0);
  ASSERT_EQ(run("train --family bert" + std::string(kTiny) +
                "--data.train text.txt --max_steps 1 --output_dir masked"),
            0)
      << output_;
  const auto train = std::string(kTask) + " --model_name_or_path masked --lora_r 4 --max_steps 1 ";
  ASSERT_EQ(run(train + "--output_dir lora"), 2) << output_;
  expect(
      "masked has no bert.pooler.dense.weight, bert.pooler.dense.bias, which adapters neither "
      "train nor save; try --modules_to_save bert.pooler.dense");
  ASSERT_EQ(run(train + "--modules_to_save bert.pooler.dense --output_dir lora"), 0) << output_;
}

}  // namespace
}  // namespace convoy
