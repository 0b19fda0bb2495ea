#pragma once

#include <string>

#include "convoy/nn/block.h"

namespace convoy::models {

/// Widths and rates of SASRec's and LiGR's layers, named as in a BertConfig.
struct SasrecConfig {
  int64_t hidden_size = 64, num_attention_heads = 4, intermediate_size = 64;
  std::string hidden_act = "relu";
  double dropout = 0.2, initializer_range = 0.02, layer_norm_eps = 1e-5;
  int64_t max_length = 100;  ///< longest row, by which dropout's draws are addressed

  /// nn::Block::cost_key of a layer.
  std::string cost_key() const;
};

/// One layer of SASRec (Kang and McAuley, 2018): bundle["hidden"] [B, T, hidden_size] in and out,
/// every other tensor passes through. A position sees itself and those before. Queries are
/// normalised, keys and values are not, and what is normalised is also what is added to.
///
/// Parameters are named as in RecTools' models, but queries, keys and values have a product each:
/// `<prefix>.<index>.multi_head_attn.query` and so on, where it stacks the three.
/// With `asked_only`, evaluation and prediction give the states of the flat positions
/// bundle["asked"] [N] alone, and anything elsewhere: for a last layer.
nn::BlockPtr make_sasrec_layer(const SasrecConfig& config, const std::string& prefix, int64_t index,
                               bool asked_only = false);

/// One layer of LiGR ("From features to transformers", 2025), with SASRec's inputs and losses
/// eSASRec (2025): normalised before attention and before a gated feed-forward part, and what each
/// adds is gated by the states that it is added to. `asked_only` as of make_sasrec_layer().
nn::BlockPtr make_ligr_layer(const SasrecConfig& config, const std::string& prefix, int64_t index,
                             bool asked_only = false);

}  // namespace convoy::models
