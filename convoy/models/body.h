#pragma once

#include <string>
#include <vector>

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
  std::string activation_function = "gelu";  ///< one of activations()
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  // gpt2 only
  bool scale_attn_weights = true;  ///< attention's products are divided by sqrt(n_embd / n_head)
  bool scale_attn_by_inverse_layer_idx = false;  ///< and by the layer's number from 1
  bool reorder_and_upcast_attn = false;          ///< attention in fp32 whatever the compute dtype

  int64_t inner() const { return n_inner > 0 ? n_inner : 4 * n_embd; }
  /// Throws UsageError on sizes that do not fit together.
  void check() const;
};

/// One layer: bundle["hidden"] [B, T, n_embd] in and out, every other tensor passes through. It
/// looks at bundle["key_mask"] [B, T] bool where there is one: positions that are real.
/// Parameters are named as in Hugging Face's files.
nn::BlockPtr make_gpt2_layer(const BodyConfig& config, const std::string& prefix, int64_t index);
nn::BlockPtr make_bert_layer(const BodyConfig& config, const std::string& prefix, int64_t index);

/// What the feed-forward part can do between its two products, by Hugging Face's names.
const std::vector<std::string>& activations();
at::Tensor activate(const std::string& kind, const at::Tensor& x);

}  // namespace convoy::models
