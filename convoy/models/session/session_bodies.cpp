#include "convoy/models/session/session_bodies.h"

#include <algorithm>
#include <functional>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/models/bert/bert.h"
#include "convoy/models/gpt2/gpt2.h"
#include "convoy/models/sasrec/hstu.h"
#include "convoy/models/sasrec/sasrec.h"
#include "convoy/models/session/session.h"
#include "convoy/models/xlnet/xlnet.h"

namespace convoy::models {

namespace {

constexpr const char* kInRectools = "transformer_layers.transformer_blocks";

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
  out.drops_fed = session_body(config.body).embedding_map.empty();
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

/// Whether only positions that predict are read of what the last layer gives, and of XLNet's
/// queries. Of causal bodies it matters in evaluation and prediction: in training nearly all
/// predict.
bool reads_asked_only(const SessionConfig& config) {
  return config.targets.empty();
}

/// n_layer layers; `make` gets the number of each, and whether it computes asked positions only.
nn::BlockList each_layer(const SessionConfig& config,
                         const std::function<nn::BlockPtr(int64_t, bool)>& make) {
  nn::BlockList out;
  for (int64_t i = 0; i < config.n_layer; ++i) {
    out.push_back(make(i, i + 1 == config.n_layer && reads_asked_only(config)));
  }
  return out;
}

Gives gives(bool asked_only) {
  return asked_only ? Gives::Asked : Gives::All;
}

nn::BlockList albert_layers(const SessionConfig& config) {
  return make_albert_layers(bert_body(config), config.body, config.n_layer,
                            gives(reads_asked_only(config)));
}

nn::BlockList bert_layers(const SessionConfig& config) {
  return each_layer(config, [&](int64_t i, bool asked_only) {
    return make_bert_layer(bert_body(config), config.body, i, gives(asked_only));
  });
}

nn::BlockList gpt2_layers(const SessionConfig& config) {
  return each_layer(config, [&](int64_t i, bool asked_only) {
    return make_gpt2_layer(gpt2_body(config), "transformer", i, asked_only);
  });
}

nn::BlockList hstu_layers(const SessionConfig& config) {
  return each_layer(config, [&](int64_t i, bool asked_only) {
    return make_hstu_layer(sasrec_body(config), "transformer_layers.stu_blocks", i, asked_only);
  });
}

nn::BlockList ligr_layers(const SessionConfig& config) {
  return each_layer(config, [&](int64_t i, bool asked_only) {
    return make_ligr_layer(sasrec_body(config), kInRectools, i, asked_only);
  });
}

nn::BlockList sasrec_layers(const SessionConfig& config) {
  return each_layer(config, [&](int64_t i, bool asked_only) {
    return make_sasrec_layer(sasrec_body(config), kInRectools, i, asked_only);
  });
}

nn::BlockList xlnet_layers(const SessionConfig& config) {
  const bool queries_only = config.masks_items() && reads_asked_only(config);
  return each_layer(config, [&](int64_t i, bool /*asked_only*/) {
    return make_xlnet_layer(xlnet_body(config), "transformer", i, queries_only);
  });
}

const std::vector<SessionBody>& bodies() {
  static const std::vector<SessionBody> all{
      {.name = "gpt2",
       .maskings = {"clm"},
       .layers = gpt2_layers,
       .positions = BodyPositions::FromStart,
       .last_norm = LastNorm{"transformer.ln_f"}},
      {.name = "hstu",
       .maskings = {"clm"},
       .layers = hstu_layers,
       .positions = BodyPositions::FromEnd,
       .reads_times = true},
      {.name = "ligr",
       .maskings = {"clm"},
       .layers = ligr_layers,
       .positions = BodyPositions::FromEnd,
       .activation = "silu"},
      {.name = "sasrec",
       .maskings = {"clm"},
       .layers = sasrec_layers,
       .positions = BodyPositions::FromEnd,
       .inner_factor = 1,
       .activation = "relu",
       .last_norm = LastNorm{"transformer_layers.last_layernorm", 1e-8}},
      {.name = "bert",
       .maskings = {"mlm"},
       .layers = bert_layers,
       .learns_from_wide_weights = true},
      {.name = "albert",
       .maskings = {"mlm"},
       .layers = albert_layers,
       .embedding_map = "albert.encoder.embedding_hidden_mapping_in",
       .learns_from_wide_weights = true},
      {.name = "electra",
       .maskings = {"mlm", "rtd"},
       .layers = bert_layers,
       .learns_from_wide_weights = true},
      {.name = "xlnet",
       .maskings = {"mlm", "clm", "plm"},
       .layers = xlnet_layers,
       .positions = BodyPositions::InLayers}};
  return all;
}

}  // namespace

const SessionBody& session_body(const std::string& name) {
  const auto found = std::ranges::find(bodies(), name, &SessionBody::name);
  if (found != bodies().end()) return *found;
  const auto known = bodies_that_learn_by("");
  fail<UsageError>("models", "body = {} is unknown; expected one of {}{}", name, join(known),
                   did_you_mean(name, known));
}

const std::vector<std::string>& maskings() {
  static const std::vector<std::string> all{"clm", "mlm", "plm", "rtd"};
  return all;
}

std::vector<std::string> bodies_with(bool (*has)(const SessionBody& body)) {
  std::vector<std::string> out;
  for (const auto& body : bodies()) {
    if (has(body)) out.push_back(body.name);
  }
  return out;
}

std::vector<std::string> bodies_that_learn_by(const std::string& masking) {
  std::vector<std::string> out;
  for (const auto& body : bodies()) {
    if (masking.empty() || std::ranges::count(body.maskings, masking) > 0) out.push_back(body.name);
  }
  return out;
}

nn::BlockList discriminator_layers(const SessionConfig& config) {
  nn::BlockList out;
  for (int64_t i = 0; i < config.n_layer; ++i) {
    out.push_back(make_bert_layer(bert_body(config), "discriminator", i));
  }
  return out;
}

}  // namespace convoy::models
