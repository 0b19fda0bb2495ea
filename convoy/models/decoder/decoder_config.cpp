#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/models/decoder/decoder.h"
#include "convoy/models/padding_row.h"
#include "convoy/nn/activation.h"

namespace convoy::models {

namespace {

constexpr const char* kWhere = "rotary parameters (rope_parameters or rope_scaling)";

void need(const Json& dict, const std::string& type, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (dict.contains(key) && !dict.at(key).is_null()) continue;
    fail<UsageError>("models", "{}: {} is missing; rope_type {} needs it", kWhere, key, type);
  }
}

}  // namespace

Fields DecoderConfig::fields() {
  return {
      {"vocab_size", &vocab_size, "size of the vocabulary", 1, kMostIds},
      {"hidden_size", &hidden_size, "width of the hidden states", 1, kWidest},
      {"intermediate_size", &intermediate_size, "width of the feed-forward layers", 1, kWidest},
      {"num_hidden_layers", &num_hidden_layers, "layers", 0, kDeepest},
      {"num_attention_heads", &num_attention_heads, "attention heads", 1, kWidest},
      {"num_key_value_heads", &num_key_value_heads,
       "key and value heads; none = num_attention_heads", 1, kWidest},
      {"head_dim", &head_dim, "width of a head; none = hidden_size / num_attention_heads", 2,
       kWidest},
      {"hidden_act", &hidden_act, "activation of the feed-forward layers", 0, 0, nn::activations()},
      {"max_position_embeddings", &max_position_embeddings, "maximum sequence length of the model",
       1, kMostIds},
      {"initializer_range", &initializer_range, "standard deviation of initial weights", 0},
      {"rms_norm_eps", &rms_norm_eps, "epsilon of normalisation layers", 0},
      {"tie_word_embeddings", &tie_word_embeddings, "share the embedding with the output layer"},
      {"attention_bias", &attention_bias, "attention projections have a bias"},
      {"mlp_bias", &mlp_bias, "feed-forward projections have a bias"},
      {"attention_dropout", &attention_dropout, "dropout on attention probabilities", 0,
       kMostDropped},
      {"rope_theta", &rope_theta, "base of the rotary embedding (RoPE)", 1e-9},
      {"rope_scaling", &rope_scaling, "RoPE scaling as JSON, in the format of transformers 4.x"},
      {"rope_parameters", &rope_parameters,
       "the same with rope_theta, in the format of transformers 5.x"},
      {"original_max_position_embeddings", &original_max_position_embeddings,
       "maximum sequence length before RoPE scaling; none = as in the RoPE parameters", 1,
       kMostIds},
      {"use_cache", &use_cache, "kept for other tools"},
      {"pretraining_tp", &pretraining_tp, "kept for other tools", 1, kWidest},
      {"bos_token_id", &bos_token_id, "id that begins a text; kept for other tools"},
      {"eos_token_id", &eos_token_id, "id that ends a text; kept for other tools"},
      {"pad_token_id", &pad_token_id,
       "id of padding, whose input embedding is not trained; negative: from the end"},
  };
}

int64_t DecoderConfig::position_limit() const {
  return rotary().type == "dynamic" ? static_cast<int64_t>(kMostIds) : max_position_embeddings;
}

std::optional<int64_t> DecoderConfig::padding_row() const {
  return models::padding_row(pad_token_id, vocab_size);
}

Json DecoderConfig::rope_dict() const {
  Json dict = !rope_scaling.is_null() ? rope_scaling : rope_parameters;
  if (dict.is_null()) dict = Json::object();
  if (!dict.is_object()) {
    fail<UsageError>("models", "{} are {}; expected an object", kWhere, dict.dump());
  }
  if (!dict.contains("rope_type")) dict["rope_type"] = dict.value("type", Json("default"));
  dict.erase("type");
  if (!dict.contains("rope_theta") || dict["rope_theta"].is_null()) {
    const bool other = rope_parameters.is_object() && rope_parameters.contains("rope_theta");
    dict["rope_theta"] = other ? rope_parameters["rope_theta"] : Json(rope_theta);
  }
  return dict;
}

nn::RotaryOptions DecoderConfig::rotary() const {
  static const std::vector<std::string> kTypes{"default", "linear", "dynamic", "yarn", "llama3"};
  const Json dict = rope_dict();
  nn::RotaryOptions out;
  out.max_length = max_position_embeddings;
  std::optional<double> factor, attention_factor, mscale, mscale_all_dim, beta_fast, beta_slow;
  std::optional<int64_t> original;
  double partial = 1;
  const Fields known{{"rope_type", &out.type, "", 0, 0, kTypes},
                     {"rope_theta", &out.theta, "", 1e-9},
                     {"factor", &factor, "", 1e-9},
                     {"original_max_position_embeddings", &original, "", 1, kMostIds},
                     {"attention_factor", &attention_factor, ""},
                     {"mscale", &mscale, ""},
                     {"mscale_all_dim", &mscale_all_dim, ""},
                     {"beta_fast", &beta_fast, "", 0},
                     {"beta_slow", &beta_slow, "", 0},
                     {"truncate", &out.truncate, ""},
                     {"low_freq_factor", &out.low_freq_factor, "", 1e-9},
                     {"high_freq_factor", &out.high_freq_factor, "", 1e-9},
                     {"partial_rotary_factor", &partial, "", 1, 1}};
  Json rest = dict;
  take_fields(rest, known, kWhere);
  check_fields(known);
  if (!rest.empty()) {
    std::vector<std::string> names;
    for (const auto& field : known) names.push_back(field.name);
    fail<UsageError>("models", "{}: {} is not known{}", kWhere, rest.begin().key(),
                     did_you_mean(rest.begin().key(), names));
  }
  if (out.type == "linear" || out.type == "dynamic") need(dict, out.type, {"factor"});
  if (out.type == "llama3") {
    need(dict, out.type, {"factor", "low_freq_factor", "high_freq_factor"});
    if (out.low_freq_factor == out.high_freq_factor) {
      fail<UsageError>("models", "{}: low_freq_factor and high_freq_factor are both {}", kWhere,
                       out.low_freq_factor);
    }
  }
  out.original_length =
      original_max_position_embeddings.value_or(original.value_or(max_position_embeddings));
  out.factor = factor.value_or(static_cast<double>(max_position_embeddings) /
                               static_cast<double>(out.original_length));
  out.attention_factor = attention_factor.value_or(0);
  out.mscale = mscale.value_or(0);
  out.mscale_all_dim = mscale_all_dim.value_or(0);
  if (beta_fast.value_or(0) != 0) out.beta_fast = *beta_fast;
  if (beta_slow.value_or(0) != 0) out.beta_slow = *beta_slow;
  return out;
}

void DecoderConfig::check_together() const {
  if (!head_dim && hidden_size % num_attention_heads != 0) {
    fail<UsageError>("models", "hidden_size = {} does not divide into num_attention_heads = {}",
                     hidden_size, num_attention_heads);
  }
  if (num_attention_heads % num_key_heads() != 0) {
    fail<UsageError>("models",
                     "num_attention_heads = {} does not divide into num_key_value_heads = {}",
                     num_attention_heads, num_key_heads());
  }
  if (head_width() % 2 != 0) {
    fail<UsageError>("models", "heads are {} wide; the rotary embedding needs an even number",
                     head_width());
  }
  if (static_cast<double>(head_width()) * static_cast<double>(num_attention_heads) > kWidest) {
    fail<UsageError>("models", "{} heads of {}; expected at most {} in all", num_attention_heads,
                     head_width(), kWidest);
  }
  padding_row();
  if (rotary().type == "dynamic" && head_width() == 2) {
    fail<UsageError>("models", "rope_type dynamic needs heads wider than 2");
  }
}

void DecoderConfig::finish(Json& json) const {
  auto dict = rope_dict();
  json["rope_parameters"] = dict;
  json["rope_theta"] = dict["rope_theta"];
  json["rope_scaling"] = dict["rope_type"] == "default" ? Json() : dict;
  if (!original_max_position_embeddings) json.erase("original_max_position_embeddings");
  json["head_dim"] = head_width();
  json["num_key_value_heads"] = num_key_heads();
}

}  // namespace convoy::models
