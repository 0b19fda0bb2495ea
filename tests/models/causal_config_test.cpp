#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/models/bert/bert_text.h"
#include "convoy/models/decoder/decoder.h"
#include "convoy/models/gpt2/gpt2.h"
#include "tests/models/testing.h"

namespace convoy::models {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<LanguageModelConfig> read(const std::string& text) {
  return read_model_config(parse_json(text, "config.json"), "config.json");
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

Json gpt2_with(const char* key, Json value) {
  Json json{{"model_type", "gpt2"}, {"n_embd", 8}, {"n_head", 2}};
  json[key] = std::move(value);
  return json;
}

TEST(LanguageModelConfig, DefaultsAreHuggingFaces) {
  auto config = read(R"({"model_type": "gpt2"})");
  EXPECT_EQ(config->num_ids(), 50257);
  EXPECT_EQ(config->to_json()["activation_function"], "gelu_new");
  EXPECT_TRUE(config->to_json()["n_inner"].is_null());
  auto llama = read(R"({"model_type": "llama"})")->to_json();
  EXPECT_EQ(llama["head_dim"], 128);
  EXPECT_EQ(llama["num_key_value_heads"], 32);
  EXPECT_EQ(llama["rope_parameters"]["rope_theta"], 10000.0);
}

TEST(LanguageModelConfig, RefusesKeysOfHuggingFaceThatChangeItsMasks) {
  const auto with = [](const char* family, const char* key, Json value) {
    return Json{{"model_type", family}, {key, std::move(value)}}.dump();
  };
  for (const auto& family : {"gpt2", "llama", "gemma2", "qwen3", "olmo2"}) {
    EXPECT_THAT(error_of(with(family, "is_causal", false)),
                HasSubstr("is_causal = false is not supported; expected true"));
    EXPECT_EQ(error_of(with(family, "is_causal", true)), "nothing was thrown");
  }
  EXPECT_EQ(error_of(with("bert", "is_causal", false)), "nothing was thrown");
  EXPECT_THAT(error_of(with("mistral", "layer_types", Json::array({"full_attention"}))),
              HasSubstr("takes a mistral with layer_types for a ministral"));
}

TEST(LanguageModelConfig, EveryKeyIsWrittenBackAndUnknownOnesAreNamedOnce) {
  const Json json{{"model_type", "gpt2"},
                  {"hidden_size", 16},
                  {"n_head", 4},
                  {"n_ctx", 1024},
                  {"architectures", {"Other"}},
                  {"eos_token_id", {1, 2}},
                  {"my_key", {{"a", 1}}},
                  {"transformers_version", "4.30.0"},
                  {"summary_type", "last"}};
  auto config = read(json.dump());
  EXPECT_THAT(config->unknown(), ElementsAre("my_key"));
  const auto out = config->to_json();
  for (const auto& [key, value] : json.items()) {
    EXPECT_EQ(out[key == "hidden_size" ? "n_embd" : key], value) << key;
  }
  EXPECT_EQ(read(out.dump())->to_json(), out);
}

TEST(LanguageModelConfig, BothSpellingsOfRotaryParametersAreOne) {
  auto old = read(R"({"model_type": "llama", "rope_theta": 500000.0, "rope_scaling":
      {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
       "original_max_position_embeddings": 8192}})");
  auto fresh = read(R"({"model_type": "llama", "rope_parameters":
      {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
       "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})");
  EXPECT_EQ(old->to_json(), fresh->to_json());
  const auto rotary = dynamic_cast<DecoderConfig&>(*old).rotary();
  EXPECT_EQ(rotary.type, "llama3");
  EXPECT_EQ(rotary.theta, 500000);
  EXPECT_EQ(rotary.original_length, 8192);
  const auto out = old->to_json();
  EXPECT_EQ(out["rope_theta"], 500000.0);  // what transformers 4.x reads
  EXPECT_EQ(out["rope_scaling"]["rope_type"], "llama3");
  EXPECT_EQ(read(out.dump())->to_json(), out);
}

TEST(LanguageModelConfig, RefusesUnsupportedKeysThatWouldChangeNumbers) {
  const std::string llama = R"({"model_type": "llama", "rope_scaling": )";
  EXPECT_THAT(error_of(llama + R"({"rope_type": "ntk"}})"), HasSubstr("'ntk'"));
  EXPECT_THAT(error_of(llama + R"({"rope_type": "longrope"}})"), HasSubstr("short_factor"));
  EXPECT_THAT(
      error_of(llama + R"({"rope_type": "linear", "factor": 2, "llama_4_scaling_beta": 1}})"),
      HasSubstr("llama_4_scaling_beta = 1 has no effect"));
  EXPECT_THAT(error_of(llama + R"({"rope_type": "yarn", "factr": 2}})"),
              HasSubstr("factr is not known, did you mean 'factor'"));
  EXPECT_THAT(error_of(llama + R"({"rope_type": "linear"}})"), HasSubstr("factor is missing"));
  EXPECT_THAT(error_of(llama + R"({"factor": "2"}})"), HasSubstr("is not a number"));
  EXPECT_THAT(error_of(llama + "3}"), HasSubstr("expected an object"));
  EXPECT_THAT(error_of(R"({"model_type": "llama", "partial_rotary_factor": 0.5})"),
              HasSubstr("partial_rotary_factor = 0.5 is not supported"));
  EXPECT_THAT(error_of(gpt2_with("add_cross_attention", true).dump()),
              HasSubstr("add_cross_attention = true is not supported"));
  EXPECT_THAT(error_of(gpt2_with("quantization_config", Json{{"bits", 4}}).dump()),
              HasSubstr("quantization_config"));
  EXPECT_THAT(error_of(gpt2_with("activation_function", "mish").dump()), HasSubstr("'mish'"));
}

TEST(LanguageModelConfig, DecodersRefuseWhatHuggingFaceDoesOtherwise) {
  EXPECT_THAT(error_of(R"({"model_type": "gemma2", "use_bidirectional_attention": true})"),
              HasSubstr("use_bidirectional_attention = true is not supported"));
  EXPECT_THAT(error_of(R"({"model_type": "gemma3_text", "attn_logit_softcapping": 50.0})"),
              HasSubstr("attn_logit_softcapping = 50 has no effect"));
  EXPECT_THAT(error_of(R"({"model_type": "phi3", "embd_pdrop": 0.1})"),
              HasSubstr("embd_pdrop = 0.1"));
  EXPECT_THAT(
      error_of(R"({"model_type": "qwen3", "num_hidden_layers": 2, "layer_types": ["full"]})"),
      HasSubstr("layer_types"));
  EXPECT_THAT(error_of(R"({"model_type": "qwen2", "num_hidden_layers": 1,
                           "layer_types": ["sliding_attention"]})"),
              HasSubstr("layer 0 has a window"));
  EXPECT_THAT(error_of(R"({"model_type": "phi3", "rope_scaling": {"type": "su",
                           "short_factor": [1, 2], "long_factor": [1, 2]}})"),
              HasSubstr("longrope has 2 factors; expected 48"));
}

TEST(LanguageModelConfig, OlderSpellingsOfDecodersAreRead) {
  const auto gemma = read(R"({"model_type": "gemma3_text", "sliding_window_pattern": 2,
      "num_hidden_layers": 4, "rope_theta": 500.0, "rope_local_base_freq": 20.0,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0}})");
  const auto& config = dynamic_cast<DecoderConfig&>(*gemma);
  EXPECT_EQ(config.rotary(LayerType::Full).theta, 500);
  EXPECT_EQ(config.rotary(LayerType::Full).type, "linear");
  EXPECT_EQ(config.rotary(LayerType::Windowed).theta, 20);
  EXPECT_EQ(config.rotary(LayerType::Windowed).type, "default");
  EXPECT_EQ(config.window_of(0), 4096);
  EXPECT_EQ(config.window_of(1), 0);
  const auto out = gemma->to_json();
  EXPECT_EQ(out["rope_parameters"]["sliding_attention"]["rope_theta"], 20.0);
  EXPECT_EQ(read(out.dump())->to_json(), out);
  const auto phi = read(R"({"model_type": "phi3", "hidden_size": 16, "num_attention_heads": 2,
      "rope_scaling": {"type": "su", "short_factor": [1, 1, 1, 2], "long_factor": [2, 2, 2, 3]}})");
  EXPECT_EQ(dynamic_cast<DecoderConfig&>(*phi).rotary().type, "longrope");
}

/// A family that is not in the tree.
const DecoderFamily kOwnFamily{.model_type = "own_decoder",
                               .architecture = "OwnForCausalLM",
                               .defaults = R"({"hidden_act": "gelu", "vocab_size": 40})",
                               .query_norm = QueryNorm::ByHead,
                               .biased_queries = true};

TEST(LanguageModelConfig, ADecoderOutsideOfTheTreeIsARow) {
  add_family("own_decoder",
             [] { return std::unique_ptr<LanguageModelConfig>(new DecoderConfig(kOwnFamily)); });
  const auto config = read(R"({"model_type": "own_decoder", "hidden_size": 8,
      "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 12})");
  EXPECT_EQ(config->num_ids(), 40);
  const auto blocks = config->make_blocks();
  std::vector<std::string> names;
  for (const auto& param : blocks.at(1)->params()) names.push_back(param->spec().name);
  EXPECT_THAT(names, testing::Contains("model.layers.0.self_attn.q_norm.weight"));
  EXPECT_THAT(names, testing::Contains("model.layers.0.self_attn.k_proj.bias"));
}

TEST(LanguageModelConfig, WindowsAreCountedInTrainingFlops) {
  auto whole = small_decoder(kMistral, {.ids = 11, .width = 8, .layers = 3});
  whole.sliding_window.reset();
  auto windowed = whole;
  windowed.sliding_window = 4;
  const double pairs = 16.0 * 16 / 2 - 4 * (16 - 2);  // of a row of 16
  EXPECT_EQ(whole.training_flops(16) - windowed.training_flops(16), 12 * 3 * pairs * 2 * 4);
  EXPECT_EQ(whole.training_flops(4), windowed.training_flops(4));
  const auto cost_key = [](const DecoderConfig& config) {
    return config.make_blocks()[1]->cost_key();
  };
  EXPECT_NE(cost_key(whole), cost_key(windowed));
}

TEST(LanguageModelConfig, T5sOfEveryVersionAreRead) {
  // As the hub has the first ones, and 1.1 as versions 4 and 5 of transformers write it.
  auto first = read(R"({"model_type": "t5", "d_model": 8, "n_positions": 512, "output_past": true,
                        "num_layers": 3, "is_encoder_decoder": true})");
  EXPECT_TRUE(first->unknown().empty());
  EXPECT_EQ(first->to_json()["scale_decoder_outputs"], true);
  EXPECT_EQ(first->to_json()["num_decoder_layers"], 3);
  EXPECT_EQ(first->layout().tied_to, "shared.weight");
  auto fourth = read(R"({"model_type": "t5", "feed_forward_proj": "gated-gelu",
                         "tie_word_embeddings": false, "dense_act_fn": "gelu_new",
                         "is_gated_act": true})");
  EXPECT_EQ(fourth->to_json()["scale_decoder_outputs"], false);
  EXPECT_EQ(fourth->layout().tied_to, "");
  auto fifth = read(R"({"model_type": "t5", "tie_word_embeddings": true,
                        "scale_decoder_outputs": false})");
  EXPECT_EQ(fifth->to_json()["scale_decoder_outputs"], false);
  EXPECT_EQ(fifth->layout().tied_to, "shared.weight");
  EXPECT_THAT(error_of(R"({"model_type": "t5", "is_encoder_decoder": false})"),
              HasSubstr("is_encoder_decoder = false is not supported"));
  EXPECT_THAT(error_of(R"({"model_type": "t5", "dense_act_fn": "silu"})"),
              HasSubstr("dense_act_fn = \"silu\" is not supported; expected relu"));
  EXPECT_EQ(read(R"({"model_type": "t5", "eos_token_id": [1, 2]})")->to_json()["eos_token_id"],
            Json({1, 2}));
  EXPECT_THAT(error_of(R"({"model_type": "t5", "eos_token_id": [1, 99999]})"),
              HasSubstr("eos_token_id = 99999 is not supported; expected 0 to 32127"));
  EXPECT_THAT(error_of(R"({"model_type": "t5", "pad_token_id": -1})"),
              HasSubstr("pad_token_id = -1 is not supported"));
  EXPECT_THAT(error_of(R"({"model_type": "t5", "relative_attention_max_distance": 16})"),
              HasSubstr("expected more than half of relative_attention_num_buckets = 32"));
}

/// As transformers of some years ago wrote them; Python takes null for false.
TEST(LanguageModelConfig, NullOfABoolIsFalse) {
  auto llama = read(R"({"model_type": "llama", "use_cache": null, "attention_bias": null,
                        "add_cross_attention": null, "tie_encoder_decoder": null})");
  EXPECT_EQ(llama->to_json().at("use_cache"), false);
  EXPECT_EQ(llama->to_json().at("attention_bias"), false);
  auto bert = read(R"({"model_type": "bert", "tie_word_embeddings": null, "is_decoder": null})");
  EXPECT_EQ(bert->layout().tied_to, "");
}

TEST(LanguageModelConfig, CachesAreOfWhatAttentionReads) {
  auto gpt2 = read(R"({"model_type": "gpt2", "reorder_and_upcast_attn": true})");
  EXPECT_EQ(gpt2->cache_dtype(at::kBFloat16), at::kFloat);
  EXPECT_EQ(read(R"({"model_type": "gpt2"})")->cache_dtype(at::kBFloat16), at::kBFloat16);
}

TEST(LanguageModelConfig, MistakesAreNamed) {
  EXPECT_THAT(error_of("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(error_of("{}"), HasSubstr("model_type is missing"));
  EXPECT_THAT(
      error_of(R"({"model_type": "mamba"})"),
      HasSubstr(
          "expected one of bert, gemma2, gemma3_text, gemma4_text, gpt2, gpt_oss, granite, "));
  EXPECT_THAT(error_of(gpt2_with("n_layer", "two").dump()), HasSubstr("n_layer = \"two\" is not"));
  EXPECT_THAT(error_of(gpt2_with("n_layer", 1.5).dump()), HasSubstr("not a whole number"));
  EXPECT_THAT(error_of(gpt2_with("vocab_size", 0).dump()), HasSubstr("vocab_size = 0; expected"));
  EXPECT_THAT(error_of(gpt2_with("vocab_size", INT64_MAX).dump()), HasSubstr("vocab_size"));
  EXPECT_THAT(error_of(gpt2_with("n_head", 3).dump()), HasSubstr("does not divide"));
  EXPECT_THAT(error_of(gpt2_with("hidden_size", 16).dump()), HasSubstr("means the same"));
  EXPECT_THAT(error_of(R"({"model_type": "llama", "num_key_value_heads": 5})"),
              HasSubstr("num_key_value_heads = 5"));
  EXPECT_THAT(error_of(R"({"model_type": "llama", "head_dim": 7})"), HasSubstr("even"));
  EXPECT_THAT(error_of(R"({"model_type": "llama", "head_dim": 1000000})"), HasSubstr("in all"));
  EXPECT_THROW(make_model_config("gpt3"), UsageError);
}

TEST(LanguageModelConfig, KeysForOtherToolsAreOptionsAndKept) {
  auto gpt2 = make_model_config("gpt2");
  OptionTable table;
  declare_options(table, "model", gpt2->fields());
  table.set("model.use_cache", "false", "here");
  EXPECT_EQ(gpt2->to_json().at("use_cache"), false);
  EXPECT_EQ(gpt2->to_json().at("add_cross_attention"), false);
  table.set("model.add_cross_attention", "true", "here");
  EXPECT_THROW(gpt2->check(), UsageError);
  auto llama = read(R"({"model_type": "llama", "use_cache": false, "pretraining_tp": 2})");
  EXPECT_TRUE(llama->unknown().empty());
  EXPECT_EQ(llama->to_json().at("pretraining_tp"), 2);
  EXPECT_EQ(llama->to_json().at("use_cache"), false);
}

TEST(LanguageModelConfig, FieldsAreOptionsToo) {
  DecoderConfig config;
  OptionTable table;
  declare_options(table, "model", config.fields());
  table.read_toml_text(
      "[model]\nhidden_size = 64\nnum_key_value_heads = 4\nmlp_bias = true\n"
      "rope_scaling = '{\"rope_type\": \"linear\", \"factor\": 2.0}'\n"
      "eos_token_id = \"[7, 8]\"\n",
      "run.toml");
  table.check();
  EXPECT_EQ(config.hidden_size, 64);
  EXPECT_EQ(config.num_key_value_heads, 4);
  EXPECT_TRUE(config.mlp_bias);
  EXPECT_EQ(config.rotary().factor, 2.0);
  EXPECT_EQ(config.to_json()["eos_token_id"], Json({7, 8}));
  DecoderConfig again;
  OptionTable copy;
  declare_options(copy, "model", again.fields());
  copy.read_toml_text(table.to_toml(), "again");
  EXPECT_EQ(again.to_json(), config.to_json());
  EXPECT_THROW(table.set("hidden_act", "mish", "here"), UsageError);
}

TEST(LanguageModelConfig, TrainingFlopsCountEveryProduct) {
  auto config = small_gpt2({.ids = 11, .width = 4, .layers = 3});
  const double layer = 4 * 12 + 4 * 4 + 2 * 4 * 16, positions = 8;
  const double attention = 2 * 4 * (positions / 2);  // scores and mixture, over half of the keys
  EXPECT_EQ(config.training_flops(8), 6 * positions * (3 * (layer + attention) + 4 * 11));
  config.tie_word_embeddings = false;
  EXPECT_EQ(config.training_flops(8), 6 * positions * (3 * (layer + attention) + 4 * 11));
}

TEST(CausalModel, NoBackwardAsksForTheTokensTable) {
  for (const auto& family : language_families()) {
    const auto config = make_model_config(family);
    const auto blocks = config->make_blocks();
    const auto& table = blocks.front()->params().front()->spec();
    EXPECT_EQ(table.shape[0], config->num_ids()) << family;
    EXPECT_FALSE(table.read_in_backward) << family;
  }
}

TEST(LanguageModelConfig, TrainingFlopsCountWhatIsAskedForAlone) {
  BertTextConfig bert;
  bert.vocab_size = 11;
  bert.hidden_size = 4;
  bert.num_attention_heads = 2;
  bert.num_hidden_layers = 3;
  bert.intermediate_size = 16;
  const double layer = 4 * 4 * 4 + 2 * 4 * 16, attention = 2 * 4 * 8;  // over all keys
  EXPECT_EQ(bert.training_flops(8, 2), 6 * (8 * 3 * (layer + attention) + 2 * (4 * 4 + 4 * 11)));

  auto t5 = small_t5({.ids = 11, .width = 4, .layers = 3});
  t5.d_kv = 3;
  t5.num_decoder_layers = 2;
  const double self = 4 * 4 * 6, inner = 2 * 4 * 16, S = 8, T = 5;
  const double encoder = 3 * S * (self + inner + 2 * 6 * S);
  const double decoder = 2 * (T * (self + inner + 2 * 6 * T / 2)                 // self attention
                              + T * 2 * 4 * 6 + S * 2 * 4 * 6 + 2 * 6 * T * S);  // cross attention
  EXPECT_EQ(t5.training_flops(8, 5), 6 * (encoder + decoder + T * 4 * 11));
}

TEST(CausalModel, IdsBeyondTheVocabularyAreRefused) {
  const auto config = small_gpt2({11, /*width=*/4, /*heads=*/1, /*layers=*/1, /*length=*/4});
  auto input = config.make_blocks().front();
  auto said = [&](nn::Bundle in) {
    try {
      input->forward(in, {});
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(said({{"input_ids", at::full({1, 3}, 11, at::kLong)}}), HasSubstr("hold 11"));
  EXPECT_THAT(said({{"input_ids", at::full({1, 3}, -1, at::kLong)}}), HasSubstr("hold -1"));
  EXPECT_THAT(said({{"input_ids", at::ones({1, 5}, at::kLong)}}), HasSubstr("n_positions = 4"));
}

/// On a device ids are looked at where they were loaded; tensors without data stand for it.
TEST(CausalModel, IdsOnADeviceAreCheckedToo) {
  const auto bad = [](const char* name, int64_t value) {
    nn::Bundle loaded{{"input_ids", at::ones({1, 3}, at::kLong)}};
    loaded[name] = at::full({1, 3}, value, at::kLong);
    return loaded;
  };
  const auto said = [](const LanguageModelConfig& config, size_t block, const nn::Bundle& loaded) {
    nn::Bundle in;
    for (const auto& [name, tensor] : loaded) in[name] = tensor.to(at::kMeta);
    in["hidden"] = at::empty({1, 3, 4}, at::TensorOptions().device(at::kMeta));
    nn::Context context;
    context.loaded = &loaded;
    try {
      config.make_blocks()[block]->forward(in, context);
    } catch (const UsageError& error) {
      return std::string(error.what());
    } catch (const std::exception& error) {
      return "not ours: " + std::string(error.what());
    }
    return std::string("nothing");
  };
  const auto gpt2 = small_gpt2({11, /*width=*/4, /*heads=*/1, /*layers=*/1, /*length=*/4});
  EXPECT_THAT(said(gpt2, 0, bad("input_ids", 11)),
              HasSubstr("input_ids hold 11; expected 0 to 10"));
  EXPECT_THAT(said(gpt2, 0, bad("positions", 4)), HasSubstr("positions hold 4; expected 0 to 3"));
  const auto t5 = small_t5({.ids = 11, .width = 4, .layers = 1});
  EXPECT_THAT(said(t5, 0, bad("labels", 12)), HasSubstr("labels hold 12"));
  EXPECT_THAT(said(t5, 0, bad("decoder_input_ids", -2)), HasSubstr("decoder_input_ids hold -2"));
  BertTextConfig bert;
  bert.vocab_size = 11;
  bert.hidden_size = 4;
  bert.num_attention_heads = 1;
  bert.num_hidden_layers = 1;
  EXPECT_THAT(said(bert, 0, bad("labels", 12)), HasSubstr("labels hold 12"));
}

}  // namespace
}  // namespace convoy::models
