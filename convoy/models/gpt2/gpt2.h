#pragma once

#include <optional>
#include <string>

#include "convoy/models/language_model.h"

namespace convoy::models {

/// Hugging Face's GPT2Config: its keys by its names, with its defaults.
class Gpt2Config : public LanguageModelConfig {
 public:
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;
  int64_t n_embd = 768;
  int64_t n_layer = 12;
  int64_t n_head = 12;
  std::optional<int64_t> n_inner;
  std::string activation_function = "gelu_new";
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  bool reorder_and_upcast_attn = false;
  bool tie_word_embeddings = true;
  bool use_cache = true;
  bool add_cross_attention = false;
  Json bos_token_id = 50256, eos_token_id = 50256, pad_token_id;
  std::string summary_type = "cls_index";
  bool summary_use_proj = true;
  Json summary_activation;
  bool summary_proj_to_labels = true;
  double summary_first_dropout = 0.1;

  std::string family() const override { return "gpt2"; }
  std::string architecture() const override { return "GPT2LMHeadModel"; }
  int64_t num_ids() const override { return vocab_size; }
  int64_t max_length() const override { return n_positions; }
  int64_t num_layers() const override { return n_layer; }
  int64_t attention_width() const override { return n_embd; }
  int64_t key_width() const override { return n_embd; }
  int64_t key_width_on(int64_t /*layer*/, const parallel::TensorPlace& place) const override {
    return width_on(place, n_head, n_embd / n_head);
  }
  at::ScalarType cache_dtype(at::ScalarType compute) const override {
    return reorder_and_upcast_attn ? at::kFloat : compute;
  }
  Fields fields() override;
  nn::BlockList make_blocks() const override;
  WeightLayout layout() const override;

 protected:
  void check_together() const override;
};

/// One layer: bundle["hidden"] [B, T, n_embd] in and out, every other tensor passes through. It
/// looks at bundle["key_mask"] [B, T] bool where there is one: positions that are real.
/// Parameters are named as in Hugging Face's files.
/// With `asked_only`, evaluation and prediction give the states of the flat positions
/// bundle["asked"] [N] alone, and anything elsewhere: for a last layer.
nn::BlockPtr make_gpt2_layer(const Gpt2Config& config, const std::string& prefix, int64_t index,
                             bool asked_only = false);

}  // namespace convoy::models
