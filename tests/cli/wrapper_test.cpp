#include "tests/cli/language_testing.h"
#include "tests/cli/preference_testing.h"
#include "tests/cli/wrapper_testing.h"

// Models that hold a language model beside parts for images: the text part is trained, the others
// are carried along.
namespace convoy {
namespace {

constexpr const char* kText =
    " --model_type gemma3_text --hidden_size 16 --intermediate_size 20 --num_hidden_layers 2"
    " --num_attention_heads 4 --num_key_value_heads 2 --head_dim 6 --sliding_window 5"
    " --query_pre_attn_scalar 6 --max_position_embeddings 32 ";
constexpr const char* kMinistral =
    " --model_type ministral3 --hidden_size 16 --intermediate_size 20 --num_hidden_layers 2"
    " --num_attention_heads 4 --num_key_value_heads 2 --head_dim 6 --max_position_embeddings 32 ";
constexpr const char* kSteps =
    " --data.train text.txt --block_size 16 --learning_rate 1e-2 --logging_steps 1 --threads 1 "
    "--lr_scheduler_type constant ";

class WrapperCommand : public LanguageCommand {
 protected:
  /// A language model in `text`, and a wrapper around it in `base`.
  void make_base(const char* family = kText, const char* wrapper = "gemma3",
                 bool old_names = true) {
    ASSERT_EQ(run(std::string("train") + family + kTiny + "--max_steps 5 --output_dir text"), 0)
        << output_;
    make_wrapper(folder_ / "text", folder_ / "base", wrapper, old_names);
  }

  void write_config(const Json& config) { write_file(folder_ / "base/config.json", config.dump()); }
};

TEST_F(WrapperCommand, IsEstimatedAndPlannedByItsConfigAlone) {
  make_base();
  fs::create_directory(folder_ / "bare");
  fs::copy_file(folder_ / "base/config.json", folder_ / "bare/config.json");
  ASSERT_EQ(run("estimate bare --ranks 2 --block_size 16"), 0) << output_;
  ASSERT_EQ(run("plan bare --ranks 2 --on h100-80 --block_size 16"), 0) << output_;
  EXPECT_NE(run("train --config_name bare --output_dir drawn" + std::string(kSteps)), 0);
  expect("whose weights cannot be drawn; try --model_name_or_path FOLDER");
}

TEST_F(WrapperCommand, TrainsAsTheTextPartAloneAndCarriesTheRest) {
  for (const bool old_names : {true, false}) {
    ASSERT_EQ(shell("rm -rf text base alone run"), 0);
    make_base(kText, "gemma3", old_names);
    const std::string rest = std::string(kSteps) + "--max_steps 4 ";
    ASSERT_EQ(run("train --model_name_or_path text --output_dir alone" + rest), 0) << output_;
    ASSERT_EQ(run("train --model_name_or_path base --max_shard_size 3KB --save_strategy steps "
                  "--save_steps 2 --output_dir run" +
                  rest),
              0)
        << output_;
    expect("the text part of a gemma3 is trained; 3 tensors of its other parts, 90 B, are carried");
    EXPECT_EQ(losses("run"), losses("alone"));
    EXPECT_TRUE(fs::exists(folder_ / "run/model.safetensors.index.json"));
    for (const char* saved : {"run", "run/checkpoint-2", "run/checkpoint-4"}) {
      expect_carried(folder_ / "base", folder_ / saved);
    }
    const auto config = json("run/config.json");
    EXPECT_EQ(config.at("model_type"), "gemma3");
    EXPECT_EQ(config.at("architectures"), Json({"Gemma3ForConditionalGeneration"}));
    EXPECT_EQ(config.at("image_token_index"), 999);
    EXPECT_EQ(config.at("vision_config"), json("base/config.json").at("vision_config"));
    EXPECT_EQ(config.at("text_config").at("model_type"), "gemma3_text");
    EXPECT_EQ(config.at("text_config").at("head_dim"), 6);
    ASSERT_EQ(run("eval run --json > again.json"), 0) << output_;
    EXPECT_EQ(last("again.json", "eval_loss"), last("alone/eval_results.json", "eval_loss"));
    ASSERT_EQ(run("checkpoint verify run"), 0) << output_;
  }
}

TEST_F(WrapperCommand, EveryCommandReadsIt) {
  make_base(kMinistral, "mistral3");
  for (const char* command : {"generate {} --prompt \"w1 w2\" --max-new-tokens 4",
                              "predict {} --data text.txt --output -", "eval {} --data text.txt"}) {
    ASSERT_EQ(run(fmt::format(fmt::runtime(command), "text")), 0) << output_;
    const auto expected = output_;
    ASSERT_EQ(run(fmt::format(fmt::runtime(command), "base")), 0) << output_;
    if (std::string(command).starts_with("predict")) EXPECT_EQ(output_, expected);
  }
  write_file(folder_ / "run.toml", "[model]\nstart = \"base\"\n[data]\ntrain = \"text.txt\"\n");
  for (const char* command : {"estimate run.toml --ranks 2", "plan run.toml --ranks 2",
                              "verify run.toml --block_size 16 --steps 2 --nproc 2 --zero 2"}) {
    ASSERT_EQ(run(command), 0) << command << output_;
  }
  ASSERT_EQ(run("checkpoint export base half --dtype bf16"), 0) << output_;
  expect_carried(folder_ / "base", folder_ / "half");
}

TEST_F(WrapperCommand, ResumesWithTheSameOtherParts) {
  make_base();
  make_wrapper(folder_ / "text", folder_ / "other", "gemma3", true, /*first_byte=*/2);
  const std::string train =
      "train --save_strategy steps --save_steps 2 --per_device_train_batch_size 4 " +
      std::string(kSteps) + " --model_name_or_path ";
  ASSERT_EQ(run(train + "base --gradient_accumulation_steps 2 --max_steps 4 --output_dir whole"), 0)
      << output_;
  ASSERT_EQ(run(train + "base --gradient_accumulation_steps 2 --max_steps 2 --output_dir half"), 0)
      << output_;
  const std::string more = " --max_steps 4 --output_dir half --resume_from_checkpoint latest";
  EXPECT_EQ(run(train + "other" + more), 2);
  expect("half/checkpoint-2 carries other weights along than those of other");
  expect("try the model that the run began with");
  fs::rename(folder_ / "base", folder_ / "moved");
  EXPECT_EQ(run(train + "base" + more), 2);
  expect("base is no folder with config.json");
  // Two ranks of ZeRO 3 go on beside a base that was moved.
  ASSERT_EQ(run(train + "moved" + more + " --nproc 2 --zero 3"), 0) << output_;
  expect_carried(folder_ / "moved", folder_ / "half");
  const formats::SafetensorsFolder whole(folder_ / "whole"), half(folder_ / "half");
  for (const auto& [name, file] : whole.tensors()) {
    EXPECT_TRUE(bytes_of(whole, name) == bytes_of(half, name)) << name;
  }
}

TEST_F(WrapperCommand, ChangedFilesAreNotCarried) {
  make_base();
  ASSERT_EQ(
      run("train --model_name_or_path base --max_steps 2 --max_shard_size 3KB --output_dir first" +
          std::string(kSteps)),
      0)
      << output_;
  // From shards; then a bit of another part of a model whose manifest vouches for it.
  ASSERT_EQ(run("train --model_name_or_path first --max_steps 2 --save_strategy steps "
                "--save_steps 1 --output_dir second" +
                std::string(kSteps)),
            0)
      << output_;
  expect_carried(folder_ / "first", folder_ / "second");
  const auto file = folder_ / "second/checkpoint-1/model.safetensors";
  auto bytes = read_file(file);
  const formats::SafetensorsFile safetensors(file);
  const auto part = safetensors.bytes(kOtherTensors[0]);
  const std::string wanted(reinterpret_cast<const char*>(part.data()), part.size());
  const auto place = bytes.find(wanted);
  ASSERT_NE(place, std::string::npos);
  bytes[place] = static_cast<char>(bytes[place] + 1);
  write_file(file, bytes);
  EXPECT_EQ(run("train --model_name_or_path second/checkpoint-1 --max_steps 2 --output_dir third" +
                std::string(kSteps)),
            1);
  expect("is not as it was written: " + kOtherTensors[0]);
}

TEST_F(WrapperCommand, AdaptersHaveTheNamesOfTheWrapperAndAreMergedIntoIt) {
  make_base(kMinistral, "mistral3");
  ASSERT_EQ(run("train --model_name_or_path base --lora_r 2 --lora_target_modules q_proj,down_proj "
                "--max_steps 20 --output_dir lora" +
                std::string(kSteps)),
            0)
      << output_;
  expect("stay as they are beside the adapter");
  const formats::SafetensorsFile adapter(folder_ / "lora/adapter_model.safetensors");
  EXPECT_EQ(adapter.entries().size(), 8U);
  EXPECT_TRUE(adapter.entries().contains(
      "base_model.model.model.language_model.layers.1.self_attn.q_proj.lora_A.weight"));
  const auto targets = json("lora/adapter_config.json").at("target_modules");
  EXPECT_EQ(targets.size(), 4U);
  EXPECT_EQ(targets.at(0), "model.language_model.layers.0.self_attn.q_proj");
  ASSERT_EQ(run("eval lora --data text.txt --json > lora.json"), 0) << output_;
  ASSERT_EQ(run("checkpoint merge lora --output merged"), 0) << output_;
  expect_carried(folder_ / "base", folder_ / "merged");
  EXPECT_EQ(json("merged/config.json").at("model_type"), "mistral3");
  ASSERT_EQ(run("eval merged --data text.txt --json > merged.json"), 0) << output_;
  EXPECT_NEAR(last("merged.json", "eval_loss") / last("lora.json", "eval_loss"), 1, 1e-5);
  ASSERT_EQ(run("train --adapter_name_or_path lora --max_steps 2 --output_dir more" +
                std::string(kSteps)),
            0)
      << output_;
  EXPECT_EQ(json("more/adapter_config.json").at("target_modules"), targets);
  // A regular expression means the text part alone, also to PEFT.
  ASSERT_EQ(run("train --model_name_or_path base --lora_r 2 --lora_target_modules '.*o_proj' "
                "--max_steps 1 --output_dir regex" +
                std::string(kSteps)),
            0)
      << output_;
  EXPECT_EQ(json("regex/adapter_config.json").at("target_modules").size(), 2U);
}

TEST_F(WrapperCommand, AHeadIsTiedAsTheFilesHaveIt) {
  make_base(kMinistral, "mistral3");
  auto config = json("base/config.json");
  config.erase("tie_word_embeddings");  // as Mistral's own files
  write_config(config);
  ASSERT_EQ(run("eval text --data text.txt --json > text.json"), 0) << output_;
  ASSERT_EQ(run("eval base --data text.txt --block_size 16 --json > base.json"), 0) << output_;
  EXPECT_EQ(last("base.json", "eval_loss"), last("text.json", "eval_loss"));
  ASSERT_EQ(
      run("train --model_name_or_path base --max_steps 1 --output_dir run" + std::string(kSteps)),
      0)
      << output_;
  EXPECT_EQ(json("run/config.json").at("tie_word_embeddings"), false);
  EXPECT_EQ(json("run/config.json").at("text_config").at("tie_word_embeddings"), false);
}

TEST_F(WrapperCommand, RefusesWhatItDoesNotKnow) {
  make_base();
  const auto good = json("base/config.json");
  const auto refuses = [&](const std::string& sentence) {
    EXPECT_NE(
        run("train --model_name_or_path base --max_steps 1 --output_dir run" + std::string(kSteps)),
        0);
    expect(sentence);
    EXPECT_FALSE(fs::exists(folder_ / "run"));
  };
  auto config = good;
  config["text_config"]["model_type"] = "gemma9_text";
  write_config(config);
  refuses("model family 'gemma9_text' of base is unknown; expected one of");
  config["text_config"]["model_type"] = "gpt2";
  write_config(config);
  refuses("describes a gemma3 with a text part of type gpt2; expected a decoder");
  config = good;
  config["model_type"] = "idefics3";
  write_config(config);
  refuses(
      "describes a model of type idefics3 around a language model; only the text part of "
      "gemma3, gemma4, mistral3, qwen3_5, qwen3_5_moe can be read");
  config["model_type"] = "qwen2_5_vl";
  write_config(config);
  refuses("describes a qwen2_5_vl, which turns queries and keys by three positions of each token");
  config = good;
  config["quantization_config"] = {{"quant_method", "fp8"}};
  write_config(config);
  refuses("quantization_config = ");
  config = good;
  config["text_config"]["final_logit_softcapping"] = 30;
  write_config(config);
  refuses("final_logit_softcapping = 30 has no effect in Hugging Face's");
  config = good;
  config["vision_config"]["num_hidden_layers"] = 3;
  write_config(config);
  refuses("is of a gemma3, but holds 2 of the 3 layers of its vision tower");
  write_config(good);
  EXPECT_EQ(run("train --config_name base --max_steps 1 --output_dir run --tokenizer words" +
                std::string(kSteps)),
            2);
  expect("a gemma3 has other parts beside its text part, whose weights cannot be drawn");
  ASSERT_EQ(shell("cp text/model.safetensors base"), 0);
  refuses("is of a gemma3, but has no weight vision_tower.*");
}

using PreferredWrapper = PreferenceCommand;

TEST_F(PreferredWrapper, LearnsConversationsAndPreferences) {
  ASSERT_EQ(run("train --task chat --data.tokenizer words --data.train chat.jsonl --max_steps 2 "
                "--threads 1 --max_length 100 --output_dir text" +
                std::string(kText).replace(std::string(kText).find("embeddings 32"), 13,
                                           "embeddings 128")),
            0)
      << output_;
  make_wrapper(folder_ / "text", folder_ / "base", "gemma3", true);
  for (const auto& [task, data] : {std::pair("chat", "chat"), {"preference", "pairs"}}) {
    for (const char* start : {"text", "base"}) {
      ASSERT_EQ(run(fmt::format("train --task {} --model_name_or_path {} --data.tokenizer words "
                                "--data.train {}.jsonl --max_steps 3 --threads 1 --learning_rate "
                                "1e-3 --logging_steps 1 --output_dir {}-{}",
                                task, start, data, task, start)),
                0)
          << output_;
    }
    EXPECT_EQ(losses(fmt::format("{}-base", task)), losses(fmt::format("{}-text", task)));
    expect_carried(folder_ / "base", folder_ / fmt::format("{}-base", task));
  }
  ASSERT_EQ(run("eval preference-base"), 0) << output_;
  ASSERT_EQ(shell("echo Who are you? | $convoy generate chat-base --chat --max-new-tokens 4"), 0)
      << output_;
}

}  // namespace
}  // namespace convoy
