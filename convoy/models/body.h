#pragma once

#include <string>

#include "convoy/nn/block.h"

namespace convoy::models {

/// Kind, sizes and rates of a transformer body; names follow Hugging Face's GPT2Config.
struct BodyConfig {
  std::string type = "gpt2";  ///< gpt2 (causal) or bert (sees both sides)
  int64_t n_embd = 64;
  int64_t n_layer = 2;
  int64_t n_head = 4;
  int64_t n_inner = 0;  ///< 0 = 4 x n_embd
  int64_t n_positions = 20;
  std::string activation_function = "gelu";  ///< gelu, gelu_new or relu
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;

  int64_t inner() const { return n_inner > 0 ? n_inner : 4 * n_embd; }
  /// Throws UsageError on sizes that do not fit together.
  void check() const;
};

/// One layer: bundle["hidden"] [B, T, n_embd] in and out, every other tensor passes through. A bert
/// layer looks at bundle["key_mask"] [B, T] bool where there is one: positions that are real.
/// Parameters are named as in Hugging Face's files.
nn::BlockPtr make_gpt2_layer(const BodyConfig& config, const std::string& prefix, int64_t index);
nn::BlockPtr make_bert_layer(const BodyConfig& config, const std::string& prefix, int64_t index);

/// What the feed-forward part does between its two products.
at::Tensor activate(const std::string& kind, const at::Tensor& x);

}  // namespace convoy::models
