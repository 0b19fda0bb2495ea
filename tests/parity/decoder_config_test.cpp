#include <gtest/gtest.h>

#include <set>
#include <string>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/models/decoder/decoder.h"

// Defaults of the families, and rules by which keys follow from others, against Hugging Face's
// configs: make_config_fixtures.py wrote them.
namespace convoy::models {
namespace {

/// Rotary parameters without the keys that say the same as others, or nothing.
Json plain_rotary(Json dict) {
  if (dict.contains(kFullAttention)) {
    for (auto& [type, of_type] : dict.items()) of_type = plain_rotary(of_type);
    return dict;
  }
  dict.erase("type");
  dict.erase("max_position_embeddings");
  return dict;
}

/// Types of the layers, as a config has them.
Json types_of(const DecoderConfig& config) {
  Json out = Json::array();
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    out.push_back(name_of(config.layer_type(layer)));
  }
  return out;
}

Json rotations_of(const DecoderConfig& config) {
  Json out = Json::array();
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    out.push_back(config.rotates(layer) ? 1 : 0);
  }
  return out;
}

TEST(DecoderConfigs, HaveTheDefaultsAndRulesOfHuggingFace) {
  const auto file = std::string(CONVOY_SOURCE_DIR) + "/tests/parity/decoder_configs.json";
  std::set<std::string> families;
  for (const auto& known : parse_json(read_file(file), file)) {
    const auto family = known.at("family").get<std::string>();
    families.insert(family);
    const auto made = make_model_config(family);
    auto& config = dynamic_cast<DecoderConfig&>(*made);
    config.read(known.at("given"), "keys");
    const auto own = config.to_json();
    const auto where = family + " " + known.at("given").dump();
    for (const auto& [key, value] : known.at("config").items()) {
      if (key == "layer_types") {
        EXPECT_EQ(types_of(config), value) << where;
      } else if (key == "no_rope_layers") {
        EXPECT_EQ(rotations_of(config), value) << where;
      } else if (key == "rope_parameters") {
        auto rotary = plain_rotary(own.at(key));
        if (value.contains("partial_rotary_factor")) {
          rotary["partial_rotary_factor"] = config.partial_rotary_factor;
        }
        EXPECT_EQ(rotary, plain_rotary(value)) << where;
      } else if (key == "sliding_window" && (value.is_null() || value == 0)) {
        for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
          EXPECT_EQ(config.window_of(layer), 0) << where;
        }
      } else if (key == "head_dim" && value.is_null()) {
        EXPECT_EQ(own.at(key), config.head_width()) << where;
      } else if (key == "num_local_experts" && own.contains("num_experts")) {
        EXPECT_EQ(own.at("num_experts"), value) << where;  // as files of the hub spell it
      } else if (key != "_sliding_window_pattern") {
        EXPECT_TRUE(own.contains(key)) << where << " lacks " << key;
        EXPECT_EQ(own.value(key, Json()), value) << where << " " << key;
      }
    }
  }
  for (const auto& family : language_families()) {
    if (dynamic_cast<DecoderConfig*>(make_model_config(family).get()) == nullptr) continue;
    EXPECT_TRUE(families.contains(family)) << family << ": run make_config_fixtures.py with it";
  }
}

TEST(DecoderConfigs, RefuseKeysThatHuggingFacesModelPassesOver) {
  const auto message = [](const char* family, const Json& given) -> std::string {
    const auto config = make_model_config(family);
    try {
      config->read(given, "keys");
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  for (const char* family : {"gemma2", "olmo3"}) {
    EXPECT_NE(message(family, {{"sliding_window_pattern", 3}}).find("has no effect"),
              std::string::npos);
  }
  EXPECT_EQ(message("gemma3_text", {{"sliding_window_pattern", 3}}), "");
  const Json linear{{"rope_type", "linear"}, {"factor", 2}};
  EXPECT_NE(message("phi3", {{"rope_scaling", linear}}).find("expected default or longrope"),
            std::string::npos);
  EXPECT_NE(message("granite", {{"attention_multiplier", -1}}).find("attention_multiplier"),
            std::string::npos);
}

}  // namespace
}  // namespace convoy::models
