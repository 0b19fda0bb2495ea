#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/models/decoder/decoder.h"
#include "convoy/models/wrapper.h"
#include "convoy/nn/declare.h"

// Configs of models that hold a language model beside other parts.
namespace convoy::models {
namespace {

using testing::HasSubstr;

/// As Google's file of Gemma 3 4B, which says little.
Json gemma3_4b() {
  return parse_json(R"({
      "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999,
      "eos_token_id": [1, 106], "image_token_index": 262144, "mm_tokens_per_image": 256,
      "model_type": "gemma3", "torch_dtype": "bfloat16",
      "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
                      "model_type": "gemma3_text", "num_hidden_layers": 34,
                      "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
                      "sliding_window": 1024},
      "vision_config": {"hidden_size": 1152, "model_type": "siglip_vision_model",
                        "num_hidden_layers": 27}})",
                    "config.json");
}

std::string message_of(const Json& json) {
  try {
    read_model_config(json, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(WrapperConfig, IsReadAsItsTextPart) {
  const auto config = read_model_config(gemma3_4b(), "config.json");
  const auto& text = dynamic_cast<const DecoderConfig&>(*config);
  EXPECT_EQ(text.family(), "gemma3_text");
  EXPECT_EQ(text.hidden_size, 2560);
  EXPECT_EQ(text.num_attention_heads, 8);
  EXPECT_EQ(text.vocab_size, 262208);
  EXPECT_EQ(text.window_of(0), 1024);
  EXPECT_EQ(text.window_of(5), 0);
  EXPECT_EQ(text.rotary(LayerType::Full).type, "linear");
  EXPECT_EQ(text.rotary(LayerType::Windowed).type, "default");
  EXPECT_TRUE(text.tie_word_embeddings);
  EXPECT_TRUE(config->unknown().empty());
  EXPECT_EQ(config->value_of("eos_token_id"), Json({1, 106}));
  EXPECT_EQ(config->value_of("bos_token_id"), 2);
  const auto layout = config->layout();
  EXPECT_EQ(layout.tied_to, "model.language_model.embed_tokens.weight");
}

TEST(WrapperConfig, IsWrittenBackWithAllThatItHad) {
  const auto given = gemma3_4b();
  const auto config = read_model_config(given, "config.json");
  const auto json = config->to_json();
  for (const auto& [key, value] : given.items()) {
    if (key == "torch_dtype" || key == kTextConfig) continue;
    EXPECT_EQ(json.at(key), value) << key;
  }
  EXPECT_EQ(json.at("dtype"), "float32");
  EXPECT_EQ(json.at("tie_word_embeddings"), true);
  EXPECT_EQ(json.at(kTextConfig).at("head_dim"), 256);
  EXPECT_FALSE(json.contains("hidden_size"));
  const auto again = read_model_config(json, "config.json");
  EXPECT_EQ(again->to_json(), json);
}

TEST(WrapperConfig, NamesWeightsAsHuggingFacesClass) {
  auto json = gemma3_4b();
  json[kTextConfig]["num_hidden_layers"] = 1;
  const auto blocks = read_model_config(json, "config.json")->make_blocks();
  for (const auto& param : nn::params_of(blocks)) {
    EXPECT_THAT(param->spec().name, testing::StartsWith(kTextBody));
  }
}

TEST(WrapperConfig, TiesTheHeadByItsOwnKey) {
  auto json = gemma3_4b();
  json[kTextConfig]["tie_word_embeddings"] = true;
  json["tie_word_embeddings"] = false;
  auto config = read_model_config(json, "config.json");
  EXPECT_FALSE(dynamic_cast<DecoderConfig&>(*config).tie_word_embeddings);
  json.erase("tie_word_embeddings");
  json["model_type"] = "mistral3";
  json[kTextConfig] = {{"tie_word_embeddings", false}};
  config = read_model_config(json, "config.json");
  EXPECT_EQ(config->family(), "mistral");
  EXPECT_TRUE(dynamic_cast<DecoderConfig&>(*config).tie_word_embeddings);
}

TEST(WrapperConfig, RefusesWhatChangesNumbers) {
  auto json = gemma3_4b();
  json["quantization_config"] = {{"bits", 4}};
  EXPECT_THAT(message_of(json), HasSubstr("quantization_config = {\"bits\":4} is not supported"));
  json = gemma3_4b();
  json[kTextConfig]["hidden_size"] = "wide";
  EXPECT_THAT(message_of(json), HasSubstr("config.json: text_config: hidden_size = \"wide\""));
  json[kTextConfig] = nullptr;
  EXPECT_THAT(message_of(json), HasSubstr("describes a gemma3 without a text_config"));
  json = gemma3_4b();
  json[kTextConfig]["model_type"] = "bert";
  EXPECT_THAT(message_of(json), HasSubstr("with a text part of type bert; expected a decoder"));
  json[kTextConfig]["model_type"] = "mamba";
  EXPECT_THAT(message_of(json), HasSubstr("a model whose text part is of type \"mamba\""));
  json["model_type"] = "qwen2_vl";
  EXPECT_THAT(message_of(json), HasSubstr("three positions of each token"));
}

}  // namespace
}  // namespace convoy::models
