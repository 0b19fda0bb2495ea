#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "convoy/base/error.h"
#include "convoy/models/decoder/decoder.h"
#include "convoy/models/wrapper.h"
#include "convoy/nn/attention/kv_cache.h"
#include "convoy/nn/declare.h"

// Configs of Gemma 4: widths by type of layer, keys that layers share, inputs of layers, and what
// is refused.
namespace convoy::models {
namespace {

using testing::HasSubstr;

constexpr int64_t kGemmaWidth = 12, kGemmaLayers = 4, kGemmaInput = 3;

/// As the file of a small E2B: windows in every other layer, the last two of which read keys of the
/// first two.
Json small_gemma4() {
  return parse_json(R"({
      "architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4",
      "audio_config": null, "image_token_id": 258880,
      "text_config": {"attention_bias": false, "attention_dropout": 0.0, "attention_k_eq_v": false,
          "bos_token_id": 2, "dtype": "bfloat16", "enable_moe_block": false, "eos_token_id": 1,
          "final_logit_softcapping": 30.0, "global_head_dim": 6, "head_dim": 4,
          "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 12,
          "hidden_size_per_layer_input": 3, "initializer_range": 0.02, "intermediate_size": 10,
          "layer_types": ["sliding_attention", "full_attention", "sliding_attention",
              "full_attention"],
          "max_position_embeddings": 131072, "model_type": "gemma4_text",
          "moe_intermediate_size": null, "num_attention_heads": 2, "num_experts": null,
          "num_global_key_value_heads": null, "num_hidden_layers": 4, "num_key_value_heads": 1,
          "num_kv_shared_layers": 2, "pad_token_id": 0, "rms_norm_eps": 1e-06,
          "rope_parameters": {"full_attention": {"partial_rotary_factor": 0.25,
              "rope_theta": 1000000.0, "rope_type": "proportional"}, "sliding_attention": {
              "rope_theta": 10000.0, "rope_type": "default"}},
          "sliding_window": 5, "tie_word_embeddings": true, "top_k_experts": null,
          "use_bidirectional_attention": "vision", "use_cache": true, "use_double_wide_mlp": true,
          "vocab_size": 11, "vocab_size_per_layer_input": 11},
      "tie_word_embeddings": true, "vision_config": {"num_hidden_layers": 16}})",
                    "config.json");
}

/// The text part of small_gemma4() with other values.
Json gemma4_text(const Json& more = Json::object()) {
  auto out = small_gemma4().at(kTextConfig);
  out.update(more);
  return out;
}

DecoderConfig gemma4_of(const Json& json) {
  const auto config = read_model_config(json, "config.json");
  return dynamic_cast<const DecoderConfig&>(*config);
}

std::string refusal_of_gemma4(const Json& json) {
  try {
    read_model_config(json, "config.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Gemma4Config, IsReadInItsWrapper) {
  const auto config = gemma4_of(small_gemma4());
  EXPECT_EQ(config.family(), "gemma4_text");
  EXPECT_THAT(config.unknown(), testing::IsEmpty());
  EXPECT_EQ(config.head_width(LayerType::Full), 6);
  EXPECT_EQ(config.head_width(LayerType::Windowed), 4);
  EXPECT_EQ(config.rotary().type, "proportional");
  EXPECT_EQ(config.rotary().proportion, 0.25);
  EXPECT_EQ(config.rotary_width(), 6);
  EXPECT_EQ(config.rotary(LayerType::Windowed).type, "default");
  EXPECT_EQ(config.score_scale(), 1);
  const auto again = config.to_json();
  EXPECT_EQ(gemma4_of(again).to_json(), again);
  const auto& own = again.at(kTextConfig);
  EXPECT_FALSE(own.contains("rope_theta"));
  EXPECT_FALSE(own.contains("rope_scaling"));
  const Json wide{{"head_dim", 6}};
  EXPECT_EQ(own.at("per_layer_config"), Json({{"1", wide}, {"3", wide}}));
}

TEST(Gemma4Config, TakesWidthsByLayerAsTransformersWritesThem) {
  auto json = gemma4_text({{"attention_k_eq_v", true}, {"num_key_value_heads", 2}});
  json.erase("global_head_dim");
  const Json wide{{"head_dim", 8}, {"num_key_value_heads", 1}};
  json["per_layer_config"] = {{"01", wide}, {"03", wide}};
  const auto config = gemma4_of(json);
  EXPECT_EQ(config.head_width(LayerType::Full), 8);
  EXPECT_EQ(config.num_key_heads(LayerType::Full), 1);
  EXPECT_EQ(config.num_key_heads(LayerType::Windowed), 2);
  json["per_layer_config"] = Json::object();
  EXPECT_EQ(gemma4_of(json).head_width(LayerType::Full), 4);
  json["per_layer_config"] = {{"1", wide}};
  EXPECT_THAT(refusal_of_gemma4(json),
              HasSubstr("per_layer_config gives layer 1 1 key heads of 8, and "
                        "other layers of type full_attention 2 of 4"));
  json["per_layer_config"] = {{"1", {{"intermediate_size", 8}}}};
  EXPECT_THAT(refusal_of_gemma4(json), HasSubstr("gives layer 1 a intermediate_size of its own"));
  json["per_layer_config"] = {{"4", wide}};
  EXPECT_THAT(refusal_of_gemma4(json), HasSubstr("expected layers below 4"));
}

TEST(Gemma4Config, TellsWhoseKeysALayerReads) {
  const auto config = gemma4_of(gemma4_text());
  std::vector<int64_t> of;
  for (int64_t layer = 0; layer < kGemmaLayers; ++layer) of.push_back(config.keys_of(layer));
  EXPECT_EQ(of, (std::vector<int64_t>{0, 1, 0, 1}));
  EXPECT_TRUE(config.lends_keys(0));
  EXPECT_FALSE(config.lends_keys(2));
  std::set<std::string> names;
  for (const auto& param : nn::params_of(config.make_blocks())) names.insert(param->spec().name);
  EXPECT_TRUE(names.contains("model.layers.1.self_attn.k_norm.weight"));
  EXPECT_FALSE(names.contains("model.layers.3.self_attn.k_norm.weight"));
  EXPECT_FALSE(names.contains("model.layers.2.self_attn.v_proj.weight"));
  EXPECT_TRUE(names.contains("model.layers.2.layer_scalar"));
  const auto same = gemma4_of(gemma4_text({{"attention_k_eq_v", true}}));
  for (const auto& param : nn::params_of(same.make_blocks())) {
    EXPECT_NE(param->spec().name, "model.layers.1.self_attn.v_proj.weight");
  }
}

TEST(Gemma4Config, CountsProductsAndCacheByTypeOfLayer) {
  const auto config = gemma4_of(gemma4_text());
  constexpr double kPositions = 8, kWindow = 5, kIds = 11;
  // Of a window's layer and of a full one: queries and what is mixed, then keys and values of one
  // head, which the last two layers lack.
  const double queries = 2 * kGemmaWidth * (2 * 4 + 2 * 6), keys = 2 * kGemmaWidth * (4.0 + 6);
  const double feeds = 3 * kGemmaWidth * 10 * (1 + 1 + 2 + 2);
  const double inputs = kGemmaLayers * (2 * kGemmaWidth * kGemmaInput + kGemmaWidth * kGemmaInput);
  const double products = 2 * queries + keys + feeds + inputs + kGemmaWidth * kIds;
  const double seen = kWindow * (kPositions - kWindow / 2), all = kPositions * kPositions / 2;
  const double pairs = 2 * (seen * 2 * 4 + all * 2 * 6);
  EXPECT_NEAR(config.training_flops(8), 6 * (kPositions * products + 2 * pairs), 1e-6);
  const double room = static_cast<double>(nn::KvCache::room(1000, 5));
  EXPECT_EQ(cache_bytes(config, 3, 1000, at::kFloat), 3 * 4 * 2 * (room * 4 + 1000 * 6));
  const auto blocks = config.make_blocks();
  std::set<std::string> kinds;
  for (int64_t layer = 0; layer < kGemmaLayers; ++layer) {
    kinds.insert(blocks[static_cast<size_t>(layer) + 1]->cost_key());
  }
  EXPECT_EQ(kinds.size(), 4U);
}

TEST(Gemma4Config, RefusesWhatChangesNumbers) {
  EXPECT_THAT(refusal_of_gemma4(gemma4_text({{"enable_moe_block", true}})),
              HasSubstr("enable_moe_block = true (experts beside the feed-forward)"));
  EXPECT_THAT(refusal_of_gemma4(gemma4_text({{"use_bidirectional_attention", "all"}})),
              HasSubstr("expected none or vision"));
  EXPECT_THAT(refusal_of_gemma4(gemma4_text({{"num_kv_shared_layers", 4}})),
              HasSubstr("num_kv_shared_layers = 4 of num_hidden_layers = 4; expected fewer"));
  EXPECT_THAT(refusal_of_gemma4(gemma4_text({{"num_kv_shared_layers", 3}})),
              HasSubstr("layer 1 reads keys of an earlier layer of its type"));
  auto rotary = gemma4_text().at("rope_parameters");
  rotary["sliding_attention"]["partial_rotary_factor"] = 0.5;
  EXPECT_THAT(refusal_of_gemma4(gemma4_text({{"rope_parameters", rotary}})),
              HasSubstr("partial_rotary_factor"));
  rotary["sliding_attention"] = {{"rope_type", "linear"}, {"factor", 2}, {"rope_theta", 100}};
  EXPECT_THAT(refusal_of_gemma4(gemma4_text({{"rope_parameters", rotary}})),
              HasSubstr("rope_type = 'linear'"));
}

}  // namespace
}  // namespace convoy::models
