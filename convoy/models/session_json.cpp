#include "convoy/base/error.h"
#include "convoy/models/session.h"

namespace convoy::models {

Json SessionConfig::to_json() const {
  Json list = Json::array();
  for (const auto& feature : features) {
    list.push_back({{"name", feature.name},
                    {"categorical", feature.categorical},
                    {"cardinality", feature.cardinality},
                    {"dim", feature.dim}});
  }
  return {{"model_type", "convoy_session"},
          {"architectures", {"ConvoySessionModel"}},
          {"item_feature", item_feature},
          {"features", list},
          {"aggregation", aggregation},
          {"continuous_projection", continuous_projection},
          {"temperature", temperature},
          {"masking", masking},
          {"mlm_probability", mlm_probability},
          {"embedding_initializer_range", embedding_initializer_range},
          {"score_padding", score_padding},
          {"attend_padding", attend_padding},
          {"body", body.type},
          {"tie_word_embeddings", true},
          {"n_embd", body.n_embd},
          {"n_layer", body.n_layer},
          {"n_head", body.n_head},
          {"n_inner", body.inner()},
          {"n_positions", body.n_positions},
          {"activation_function", body.activation_function},
          {"resid_pdrop", body.resid_pdrop},
          {"embd_pdrop", body.embd_pdrop},
          {"attn_pdrop", body.attn_pdrop},
          {"layer_norm_epsilon", body.layer_norm_epsilon},
          {"initializer_range", body.initializer_range},
          {"pad_token_id", 0}};
}

SessionConfig SessionConfig::from_json(const Json& json, const std::string& where) {
  SessionConfig config;
  try {
    if (json.at("model_type") != "convoy_session") {
      fail<FileError>("models", "{} describes a model of type {}; expected convoy_session", where,
                      json.at("model_type").dump());
    }
    json.at("item_feature").get_to(config.item_feature);
    for (const auto& item : json.at("features")) {
      config.features.push_back(
          {item.at("name"), item.at("categorical"), item.at("cardinality"), item.at("dim")});
    }
    json.at("aggregation").get_to(config.aggregation);
    json.at("continuous_projection").get_to(config.continuous_projection);
    json.at("temperature").get_to(config.temperature);
    json.at("masking").get_to(config.masking);
    json.at("mlm_probability").get_to(config.mlm_probability);
    json.at("embedding_initializer_range").get_to(config.embedding_initializer_range);
    json.at("score_padding").get_to(config.score_padding);
    json.at("attend_padding").get_to(config.attend_padding);
    auto& body = config.body;
    json.at("body").get_to(body.type);
    json.at("n_embd").get_to(body.n_embd);
    json.at("n_layer").get_to(body.n_layer);
    json.at("n_head").get_to(body.n_head);
    json.at("n_inner").get_to(body.n_inner);
    json.at("n_positions").get_to(body.n_positions);
    json.at("activation_function").get_to(body.activation_function);
    json.at("resid_pdrop").get_to(body.resid_pdrop);
    json.at("embd_pdrop").get_to(body.embd_pdrop);
    json.at("attn_pdrop").get_to(body.attn_pdrop);
    json.at("layer_norm_epsilon").get_to(body.layer_norm_epsilon);
    json.at("initializer_range").get_to(body.initializer_range);
  } catch (const Json::exception& error) {
    fail<FileError>("models", "{} is not a session model's config: {}", where, json_trouble(error));
  }
  try {
    config.check();
  } catch (const UsageError& error) {
    throw FileError(fmt::format("{} (in {})", error.what(), where));
  }
  return config;
}

}  // namespace convoy::models
