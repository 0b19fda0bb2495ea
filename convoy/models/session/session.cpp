#include "convoy/models/session/session.h"

#include "convoy/models/bert/bert.h"
#include "convoy/models/gpt2/gpt2.h"
#include "convoy/models/sasrec/hstu.h"
#include "convoy/models/sasrec/sasrec.h"
#include "convoy/models/session/replaced_items.h"
#include "convoy/models/session/session_head.h"
#include "convoy/models/session/session_input.h"
#include "convoy/models/xlnet/xlnet.h"

namespace convoy::models {

namespace {

Gpt2Config gpt2_body(const SessionConfig& config) {
  Gpt2Config out;
  out.n_positions = config.num_positions();
  out.n_embd = config.d_model;
  out.n_layer = config.n_layer;
  out.n_head = config.n_head;
  out.n_inner = config.inner();
  out.activation_function = config.activation_kind();
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
  out.hidden_act = config.activation_kind();
  out.hidden_dropout_prob = out.attention_probs_dropout_prob = config.dropout;
  out.max_position_embeddings = config.num_positions();
  out.initializer_range = config.initializer_range;
  out.layer_norm_eps = config.layer_norm_epsilon;
  out.drops_fed = config.body != "albert";
  return out;
}

XlnetConfig xlnet_body(const SessionConfig& config) {
  XlnetConfig out;
  out.d_model = config.d_model;
  out.n_layer = config.n_layer;
  out.n_head = config.n_head;
  out.d_inner = config.inner();
  out.ff_activation = config.activation_kind();
  out.dropout = config.dropout;
  out.initializer_range = config.initializer_range;
  out.layer_norm_eps = config.layer_norm_epsilon;
  out.max_length = config.num_positions();
  return out;
}

SasrecConfig sasrec_body(const SessionConfig& config) {
  SasrecConfig out;
  out.hidden_size = config.d_model;
  out.num_attention_heads = config.n_head;
  out.intermediate_size = config.inner();
  out.hidden_act = config.activation_kind();
  out.dropout = config.dropout;
  out.initializer_range = config.initializer_range;
  out.layer_norm_eps = config.layer_norm_epsilon;
  out.max_length = config.num_positions();
  return out;
}

/// Whether of what the layers give, and of XLNet's queries, only positions that predict are read.
/// Of causal bodies it matters in evaluation and prediction: in training nearly all predict.
bool reads_asked_only(const SessionConfig& config) {
  return config.targets.empty();
}

nn::BlockPtr layer_of(const SessionConfig& config, int64_t index) {
  const auto& body = config.body;
  const std::string in_rectools = "transformer_layers.transformer_blocks";
  const bool asked_only = index + 1 == config.n_layer && reads_asked_only(config);
  if (body == "gpt2") return make_gpt2_layer(gpt2_body(config), "transformer", index, asked_only);
  if (body == "xlnet") {
    const bool queries_only = config.masks_items() && reads_asked_only(config);
    return make_xlnet_layer(xlnet_body(config), "transformer", index, queries_only);
  }
  if (body == "sasrec") {
    return make_sasrec_layer(sasrec_body(config), in_rectools, index, asked_only);
  }
  if (body == "hstu") {
    const std::string prefix = "transformer_layers.stu_blocks";
    return make_hstu_layer(sasrec_body(config), prefix, index, asked_only);
  }
  if (body == "ligr") return make_ligr_layer(sasrec_body(config), in_rectools, index, asked_only);
  return make_bert_layer(bert_body(config), body, index, asked_only ? Gives::Asked : Gives::All);
}

nn::BlockList layers_of(const SessionConfig& config) {
  if (config.body == "albert") {
    return make_albert_layers(bert_body(config), "albert", config.n_layer,
                              reads_asked_only(config) ? Gives::Asked : Gives::All);
  }
  nn::BlockList out;
  for (int64_t i = 0; i < config.n_layer; ++i) out.push_back(layer_of(config, i));
  return out;
}

}  // namespace

nn::BlockList make_session_model(const SessionConfig& config) {
  config.check();
  auto input = std::make_shared<SessionInput>(config);
  nn::BlockList blocks{input};
  for (auto& layer : layers_of(config)) blocks.push_back(std::move(layer));
  nn::ParamPtr output = config.weight_tying ? input->item_table() : nullptr;
  if (config.detects()) {
    const auto replaced = std::make_shared<ReplacedItems>(config, *input);
    output = replaced->output_table();
    blocks.push_back(replaced);
    for (int64_t i = 0; i < config.n_layer; ++i) {
      blocks.push_back(make_training_only(make_bert_layer(bert_body(config), "discriminator", i)));
    }
  }
  blocks.push_back(std::make_shared<SessionHead>(config, output));
  return blocks;
}

}  // namespace convoy::models
