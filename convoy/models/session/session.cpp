#include "convoy/models/session/session.h"

#include "convoy/models/bert/bert.h"
#include "convoy/models/gpt2/gpt2.h"
#include "convoy/models/session/session_head.h"
#include "convoy/models/session/session_input.h"

namespace convoy::models {

namespace {

Gpt2Config gpt2_body(const SessionConfig& config) {
  Gpt2Config out;
  out.n_positions = config.num_positions();
  out.n_embd = config.d_model;
  out.n_layer = config.n_layer;
  out.n_head = config.n_head;
  out.n_inner = config.inner();
  out.activation_function = config.activation;
  out.resid_pdrop = out.attn_pdrop = config.dropout;
  out.layer_norm_epsilon = config.layer_norm_epsilon;
  out.initializer_range = config.initializer_range;
  return out;
}

BertConfig bert_body(const SessionConfig& config) {
  BertConfig out;
  out.hidden_size = config.d_model;
  out.num_attention_heads = config.n_head;
  out.intermediate_size = config.inner();
  out.hidden_act = config.activation;
  out.hidden_dropout_prob = out.attention_probs_dropout_prob = config.dropout;
  out.max_position_embeddings = config.num_positions();
  out.initializer_range = config.initializer_range;
  out.layer_norm_eps = config.layer_norm_epsilon;
  return out;
}

}  // namespace

nn::BlockList make_session_model(const SessionConfig& config) {
  config.check();
  auto input = std::make_shared<SessionInput>(config);
  nn::BlockList blocks{input};
  for (int64_t i = 0; i < config.n_layer; ++i) {
    blocks.push_back(config.body == "bert" ? make_bert_layer(bert_body(config), "bert", i)
                                           : make_gpt2_layer(gpt2_body(config), "transformer", i));
  }
  blocks.push_back(std::make_shared<SessionHead>(config, input->item_table()));
  return blocks;
}

}  // namespace convoy::models
