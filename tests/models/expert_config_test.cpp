#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/models/decoder/decoder.h"
#include "convoy/nn/declare.h"

// Configs of decoders with experts: costs, layers, and what is refused.
namespace convoy::models {
namespace {

using testing::HasSubstr;

Json small(const std::string& family) {
  return {{"model_type", family},     {"vocab_size", 11},         {"hidden_size", 8},
          {"num_hidden_layers", 3},   {"num_attention_heads", 2}, {"num_key_value_heads", 1},
          {"num_experts_per_tok", 2}, {"num_local_experts", 5},   {"intermediate_size", 6}};
}

Json with(Json json, const Json& more) {
  json.update(more);
  return json;
}

std::unique_ptr<LanguageModelConfig> read(const Json& json) {
  return read_model_config(json, "config.json");
}

std::string error_of(const Json& json) {
  try {
    read(json)->check();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(ExpertConfig, CountsTheExpertsOfATokenAlone) {
  const double positions = 4, D = 8, F = 6, E = 5, V = 11;
  const double products = 3 * (D * D + 2 * D * D / 2 + D * D + D * E + 2 * 3 * D * F) + D * V;
  const double pairs = 3 * positions * positions / 2;
  const double expected = 6 * (positions * products + 2 * pairs * D);
  EXPECT_NEAR(read(small("mixtral"))->training_flops(4), expected, 1e-6);
  // gpt-oss has the same products in other shapes, and windows.
  const auto stacked = with(small("gpt_oss"), {{"head_dim", 4}, {"sliding_window", 4}});
  EXPECT_NEAR(read(stacked)->training_flops(4), expected, 1e-6);
}

TEST(ExpertConfig, NamesEachMatrixAsTheHubDoes) {
  std::vector<std::string> names;
  for (const auto& param : nn::params_of(read(small("mixtral"))->make_blocks())) {
    if (param->spec().name.find("layers.1.block") != std::string::npos) {
      names.push_back(param->spec().name);
    }
  }
  ASSERT_EQ(names.size(), 1U + 3 * 5);
  EXPECT_EQ(names[0], "model.layers.1.block_sparse_moe.gate.weight");
  EXPECT_EQ(names[1], "model.layers.1.block_sparse_moe.experts.0.w1.weight");
  EXPECT_EQ(names[2], "model.layers.1.block_sparse_moe.experts.0.w3.weight");
  EXPECT_EQ(names[3], "model.layers.1.block_sparse_moe.experts.1.w1.weight");
  EXPECT_EQ(names[11], "model.layers.1.block_sparse_moe.experts.0.w2.weight");
}

TEST(ExpertConfig, TellsWhichLayersHaveExperts) {
  const auto layers = [](const Json& more) {
    const auto config = read(with(small("qwen3_moe"), more));
    const auto& decoder = dynamic_cast<const DecoderConfig&>(*config);
    std::string out;
    for (int64_t layer = 0; layer < 3; ++layer) out += decoder.has_experts(layer) ? 'e' : '-';
    return out + (decoder.any_experts() ? "" : ", none");
  };
  EXPECT_EQ(layers(Json::object()), "eee");
  EXPECT_EQ(layers({{"decoder_sparse_step", 2}}), "-e-");
  EXPECT_EQ(layers({{"mlp_only_layers", {0, 2}}}), "-e-");
  EXPECT_EQ(layers({{"mlp_only_layers", {0, 1, 2}}}), "---, none");
}

TEST(ExpertConfig, RefusesWhatDoesNotFit) {
  EXPECT_THAT(error_of(with(small("mixtral"), {{"num_experts_per_tok", 6}})),
              HasSubstr("num_experts_per_tok = 6 of num_local_experts = 5; expected at most 5"));
  EXPECT_THAT(error_of(with(small("qwen3_moe"), {{"num_experts_per_tok", 6}})),
              HasSubstr("num_experts_per_tok = 6 of num_experts = 5; expected at most 5"));
  EXPECT_THAT(error_of(with(small("qwen3_moe"), {{"mlp_only_layers", 3}})),
              HasSubstr("mlp_only_layers = 3; expected a list of layers"));
  EXPECT_THAT(error_of(with(small("qwen3_moe"), {{"mlp_only_layers", {"a"}}})),
              HasSubstr("mlp_only_layers has \"a\"; expected numbers of layers"));
  EXPECT_THAT(error_of(with(small("mixtral"), {{"router_jitter_noise", 0.1}})),
              HasSubstr("router_jitter_noise"));
  EXPECT_THAT(error_of(with(small("mixtral"), {{"num_experts", 4}})), HasSubstr("num_experts"));
  EXPECT_THAT(
      error_of(with(small("gpt_oss"), {{"quantization_config", {{"quant_method", "mxfp4"}}}})),
      HasSubstr("quantization_config"));
}

}  // namespace
}  // namespace convoy::models
