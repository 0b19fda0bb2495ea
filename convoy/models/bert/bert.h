#pragma once

#include <string>

#include "convoy/nn/block.h"

namespace convoy::models {

/// Settings of a layer from Hugging Face's BertConfig: its keys by its names, with its defaults.
struct BertConfig {
  int64_t hidden_size = 768;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  int64_t max_position_embeddings = 512;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  bool drops_fed = true;  ///< dropout on the feed-forward part's output, too; ALBERT has none

  double feed_forward_dropout() const { return drops_fed ? hidden_dropout_prob : 0; }
};

/// Positions whose states a layer gives.
enum class Gives {
  All,
  First,  ///< of the first position of each row, [B, 1, hidden_size]
  Asked,  ///< of the flat positions bundle["asked"] [N], and anything elsewhere: for a last layer
};

/// One layer: bundle["hidden"] [B, T, hidden_size] in and out, every other tensor passes through.
/// It looks at bundle["key_mask"] [B, T] bool where there is one: positions that are real.
/// Parameters are named as in Hugging Face's files.
nn::BlockPtr make_bert_layer(const BertConfig& config, const std::string& prefix, int64_t index,
                             Gives gives = Gives::All);

/// ALBERT's layers: `count` of them, which all read the parameters of the first (Lan et al., 2020).
/// `last`: positions whose states the last one gives.
nn::BlockList make_albert_layers(const BertConfig& config, const std::string& prefix, int64_t count,
                                 Gives last = Gives::All);

}  // namespace convoy::models
