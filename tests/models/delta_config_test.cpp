#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/models/decoder/decoder.h"
#include "convoy/models/wrapper.h"
#include "convoy/nn/declare.h"
#include "tests/models/testing.h"

// Configs of models with layers of the gated delta rule, and what they say of these layers.
namespace convoy::models {
namespace {

using testing::HasSubstr;

/// As the file of a small Qwen3.5.
Json small_qwen35() {
  return parse_json(R"({
      "architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5",
      "image_token_id": 248056, "vision_start_token_id": 248053,
      "text_config": {"attention_bias": false, "attention_dropout": 0.0, "attn_output_gate": true,
          "dtype": "bfloat16", "eos_token_id": 248044, "full_attention_interval": 4,
          "head_dim": 256, "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 3584,
          "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_num_key_heads": 16,
          "linear_num_value_heads": 16, "linear_value_head_dim": 128, "mamba_ssm_dtype": "float32",
          "max_position_embeddings": 262144, "model_type": "qwen3_5_text",
          "mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": false,
          "num_attention_heads": 8, "num_hidden_layers": 24, "num_key_value_heads": 2,
          "rms_norm_eps": 1e-06, "use_cache": true, "vocab_size": 248320,
          "rope_parameters": {"mrope_interleaved": true, "mrope_section": [11, 11, 10],
              "partial_rotary_factor": 0.25, "rope_theta": 10000000, "rope_type": "default"}},
      "tie_word_embeddings": true,
      "vision_config": {"depth": 12, "hidden_size": 768, "model_type": "qwen3_5"}})",
                    "config.json");
}

std::string refusal_of(const Json& json) {
  try {
    read_model_config(json, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

DecoderConfig small_delta_config(const DecoderFamily& family = kQwen35Text) {
  auto config = small_decoder(family, {});
  config.head_dim = 8;
  config.layer_types = {kLinearAttention, kFullAttention};
  config.linear_num_key_heads = 2;
  config.linear_num_value_heads = 4;
  config.linear_key_head_dim = 6;
  config.linear_value_head_dim = 5;
  return config;
}

TEST(DeltaConfig, Qwen35IsReadInItsWrapper) {
  const auto config = read_model_config(small_qwen35(), "config.json");
  const auto& text = dynamic_cast<const DecoderConfig&>(*config);
  EXPECT_EQ(text.family(), "qwen3_5_text");
  EXPECT_THAT(config->unknown(), testing::IsEmpty());
  EXPECT_EQ(text.layer_type(2), LayerType::Linear);
  EXPECT_EQ(text.layer_type(3), LayerType::Full);
  EXPECT_EQ(text.rotary_width(), 64);
  EXPECT_EQ(text.rotary().theta, 1e7);
  EXPECT_TRUE(text.tie_word_embeddings);
  const auto again = config->to_json();
  const auto parameters = again.at(kTextConfig).at("rope_parameters");
  EXPECT_EQ(parameters.at("mrope_section"), Json({11, 11, 10}));
  EXPECT_EQ(parameters.at("partial_rotary_factor"), 0.25);
  EXPECT_EQ(read_model_config(again, "config.json")->to_json(), again);
  auto untold = small_qwen35();
  untold.erase("tie_word_embeddings");
  EXPECT_FALSE(dynamic_cast<const DecoderConfig&>(*read_model_config(untold, "config.json"))
                   .tie_word_embeddings);
}

TEST(DeltaConfig, CarriesHeadsForMoreTokensAlong) {
  const auto config = read_model_config(small_qwen35(), "config.json");
  const auto others = config->layout().others;
  EXPECT_THAT(others, testing::Contains("mtp."));
  EXPECT_THAT(others, testing::Contains("model.visual."));
  auto alone = small_qwen35().at(kTextConfig);
  EXPECT_THAT(read_model_config(alone, "config.json")->layout().unused, testing::Contains("mtp."));
}

TEST(DeltaConfig, RefusesWhatCannotBe) {
  Json json{{"model_type", "qwen3_5_text"}, {"linear_num_key_heads", 3}};
  EXPECT_THAT(refusal_of(json), HasSubstr("linear_num_value_heads = 32 does not divide into"));
  json = {{"model_type", "qwen3_5_text"},
          {"num_hidden_layers", 1},
          {"layer_types", {"sliding_attention"}}};
  EXPECT_THAT(refusal_of(json), HasSubstr("expected full_attention or linear_attention"));
  json["model_type"] = "qwen3";
  json["layer_types"] = {"linear_attention"};
  EXPECT_THAT(refusal_of(json), HasSubstr("expected full_attention or sliding_attention"));
  json = {{"model_type", "llama"}, {"rope_theta", nullptr}};
  EXPECT_THAT(refusal_of(json), HasSubstr("rope_theta is none"));
  json = {{"model_type", "llama"}, {"rope_parameters", {{"mrope_section", {1, 2, 3}}}}};
  EXPECT_THAT(refusal_of(json), HasSubstr("mrope_section is not known"));
  json = {{"model_type", "olmo_hybrid"}, {"linear_dt_min", 0.2}};
  EXPECT_THAT(refusal_of(json), HasSubstr("linear_dt_min = 0.2 to linear_dt_max = 0.1"));
}

TEST(DeltaConfig, OlmoHybridNeedNotRotate) {
  const auto read = [](const Json& json) { return read_model_config(json, "config.json"); };
  const Json still{{"model_type", "olmo_hybrid"},
                   {"rope_parameters", {{"rope_theta", nullptr}, {"rope_type", "default"}}}};
  const auto config = read(still);
  EXPECT_FALSE(dynamic_cast<const DecoderConfig&>(*config).rotates(3));
  EXPECT_TRUE(config->to_json().at("rope_parameters").at("rope_theta").is_null());
  EXPECT_FALSE(dynamic_cast<const DecoderConfig&>(*read(config->to_json())).rotates(3));
  const auto old = read({{"model_type", "olmo_hybrid"}, {"rope_theta", nullptr}});
  EXPECT_FALSE(dynamic_cast<const DecoderConfig&>(*old).rotates(3));
  const auto turning = read({{"model_type", "olmo_hybrid"}});
  EXPECT_TRUE(dynamic_cast<const DecoderConfig&>(*turning).rotates(3));
}

TEST(DeltaConfig, DrawsRatesAsHuggingFace) {
  auto config = small_delta_config();
  config.linear_num_key_heads = 1000;
  config.linear_num_value_heads = 1000;
  const auto drawn = [](const DecoderConfig& of, const char* leaf) {
    const auto blocks = of.make_blocks();
    for (const auto& param : blocks.at(1)->params()) {
      if (!param->spec().name.ends_with(leaf)) continue;
      auto out = at::empty(param->spec().shape);
      nn::initialize(param->spec(), 3, out);
      return out;
    }
    return at::Tensor();
  };
  const auto rates = drawn(config, "A_log").exp();
  EXPECT_GE(rates.min().item<double>(), 0.0099);
  EXPECT_LE(rates.max().item<double>(), 16.001);
  EXPECT_NEAR(rates.mean().item<double>(), 8, 0.6);
  EXPECT_TRUE(at::equal(drawn(config, "dt_bias"), at::ones({1000})));
  auto olmo = small_delta_config(kOlmoHybrid);
  olmo.linear_num_key_heads = olmo.linear_num_value_heads = 1000;
  const auto times = at::softplus(drawn(olmo, "dt_bias")).log();
  EXPECT_GE(times.min().item<double>(), std::log(0.001) - 1e-3);
  EXPECT_LE(times.max().item<double>(), std::log(0.1) + 1e-3);
  EXPECT_NEAR(times.mean().item<double>(), std::log(0.01), 0.15);
  EXPECT_TRUE(at::isfinite(drawn(olmo, "A_log")).all().item<bool>());
}

TEST(DeltaConfig, CountsItsStateAndItsProducts) {
  const auto config = small_delta_config();
  // Two tensors of two key heads, and the state with three inputs of the convolution.
  const double keys = 2 * 2 * 8 * 4, state = 4 * 6 * 5 * 4, tail = 3 * (2 * 12 + 20);
  EXPECT_EQ(cache_bytes(config, 3, 10, at::kFloat), 3 * (10 * keys + state + tail * 4));
  EXPECT_EQ(cache_bytes(config, 3, 10, at::kBFloat16), 3 * (10 * keys / 2 + state + tail * 2));
  EXPECT_EQ(cache_bytes(config, 1, 0, at::kFloat, {0, 2}), state / 2 + tail * 2);
  // Beyond products with weights: quadratic in one layer of two.
  const auto all = [&](int64_t length) { return config.training_flops(length); };
  const double pairs = 3 * 2 * 2 * 2 * 8 / 2;  // two heads, eight wide
  EXPECT_NEAR(all(2000) - 2 * all(1000), pairs * (2000.0 * 2000 - 2 * 1000.0 * 1000), 1);
  auto attention = config;
  attention.layer_types = {kFullAttention, kFullAttention};
  EXPECT_GT(all(64), 0);
  EXPECT_LT(all(100000), attention.training_flops(100000));
}

TEST(DeltaConfig, TellsLayersOfOneKindFromOthers) {
  auto config = small_delta_config();
  config.num_hidden_layers = 3;
  config.layer_types = {kLinearAttention, kLinearAttention, kFullAttention};
  const auto blocks = config.make_blocks();
  EXPECT_EQ(blocks[1]->cost_key(), blocks[2]->cost_key());
  EXPECT_NE(blocks[1]->cost_key(), blocks[3]->cost_key());
  EXPECT_FALSE(blocks[1]->takes_context_ranks());
  EXPECT_TRUE(blocks[3]->takes_context_ranks());
}

}  // namespace
}  // namespace convoy::models
