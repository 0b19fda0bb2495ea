#pragma once

#include "convoy/models/bert/bert_text.h"
#include "convoy/models/decoder/decoder.h"
#include "convoy/models/gpt2/gpt2.h"
#include "convoy/models/session/session.h"
#include "convoy/models/session/session_bodies.h"
#include "convoy/models/t5/t5.h"

namespace convoy::models {

/// How large a model of a test is.
struct Small {
  int64_t ids = 50, width = 16, heads = 2, layers = 2;
  int64_t length = 64;  ///< of a text or a session, at most
};

inline Gpt2Config small_gpt2(const Small& size) {
  Gpt2Config config;
  config.vocab_size = size.ids;
  config.n_embd = size.width;
  config.n_head = size.heads;
  config.n_layer = size.layers;
  config.n_positions = size.length;
  return config;
}

/// With two heads of keys, and dropout.
inline DecoderConfig small_llama(const Small& size) {
  DecoderConfig config;
  config.vocab_size = size.ids;
  config.hidden_size = size.width;
  config.intermediate_size = size.width * 3 / 2;
  config.num_attention_heads = size.heads;
  config.num_key_value_heads = 2;
  config.num_hidden_layers = size.layers;
  config.max_position_embeddings = size.length;
  config.attention_dropout = 0.2;
  return config;
}

/// A small decoder of `family`, without dropout.
inline DecoderConfig small_decoder(const DecoderFamily& family, const Small& size) {
  DecoderConfig config(family);
  config.vocab_size = size.ids;
  config.hidden_size = size.width;
  config.intermediate_size = size.width * 3 / 2;
  config.num_attention_heads = size.heads;
  config.num_key_value_heads = size.heads;
  config.head_dim = 4;
  config.num_hidden_layers = size.layers;
  config.max_position_embeddings = size.length;
  config.pad_token_id = config.bos_token_id = config.eos_token_id = Json();
  return config;
}

/// With as many layers on both sides.
inline T5Config small_t5(const Small& size) {
  T5Config config;
  config.vocab_size = size.ids;
  config.d_model = size.width;
  config.d_kv = size.width / size.heads;
  config.d_ff = size.width * 4;
  config.num_heads = size.heads;
  config.num_layers_of_encoder = size.layers;
  return config;
}

/// The last id stands for what is hidden.
inline BertTextConfig small_bert(const Small& size) {
  BertTextConfig config;
  config.vocab_size = size.ids;
  config.hidden_size = size.width;
  config.num_attention_heads = size.heads;
  config.num_hidden_layers = size.layers;
  config.intermediate_size = size.width * 2;
  config.max_position_embeddings = size.length;
  config.masking.mask_id = size.ids - 1;
  return config;
}

/// Of sessions of "items".
inline SessionConfig small_session(const Small& size) {
  SessionConfig config;
  config.item_feature = "items";
  config.features = {{"items", true, size.ids}};
  config.d_model = size.width;
  config.n_head = size.heads;
  config.n_layer = size.layers;
  config.max_length = size.length;
  return config;
}

/// Every session body with each masking that it learns by, as "xlnet plm".
inline std::vector<std::string> bodies_and_maskings() {
  std::vector<std::string> out;
  for (const auto& body : bodies_that_learn_by("")) {
    for (const auto& masking : session_body(body).maskings) out.push_back(body + " " + masking);
  }
  return out;
}

/// Bodies that learn by `masking`, as "xlnet clm".
inline std::vector<std::string> bodies_by(const std::string& masking) {
  auto out = bodies_that_learn_by(masking);
  for (auto& body : out) body += " " + masking;
  return out;
}

}  // namespace convoy::models
