#pragma once

#include <optional>
#include <string>

#include "convoy/models/language_model.h"
#include "convoy/nn/attention/rotary.h"

namespace convoy::models {

/// Hugging Face's DecoderConfig: its keys by its names, with its defaults. Rotary settings are read
/// in the spelling of transformers 4.x (rope_theta, rope_scaling) and 5.x (rope_parameters).
class DecoderConfig : public LanguageModelConfig {
 public:
  int64_t vocab_size = 32000;
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads, head_dim;
  std::string hidden_act = "silu";
  int64_t max_position_embeddings = 2048;
  double initializer_range = 0.02;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  double attention_dropout = 0;
  double rope_theta = 10000;
  Json rope_scaling, rope_parameters;
  std::optional<int64_t> original_max_position_embeddings;
  bool use_cache = true;
  int64_t pretraining_tp = 1;
  Json bos_token_id = 1, eos_token_id = 2, pad_token_id;

  std::string family() const override { return "llama"; }
  std::string architecture() const override { return "LlamaForCausalLM"; }
  int64_t num_ids() const override { return vocab_size; }
  int64_t max_length() const override { return max_position_embeddings; }
  int64_t position_limit() const override;
  int64_t num_layers() const override { return num_hidden_layers; }
  int64_t attention_width() const override { return num_attention_heads * head_width(); }
  int64_t key_width() const override { return num_key_heads() * head_width(); }
  int64_t key_width_on(const schedule::TensorPlace& place) const override;
  Fields fields() override;
  nn::BlockList make_blocks() const override;
  WeightLayout layout() const override;

  int64_t num_key_heads() const { return num_key_value_heads.value_or(num_attention_heads); }
  int64_t head_width() const { return head_dim.value_or(hidden_size / num_attention_heads); }
  /// Row of the embedding that Hugging Face leaves untrained, by pad_token_id; none without one.
  std::optional<int64_t> padding_row() const;
  /// Throws UsageError on a kind of rotary embedding, or a key of it, that is not known.
  nn::RotaryOptions rotary() const;

 protected:
  void check_together() const override;
  void finish(Json& json) const override;

 private:
  Json rope_dict() const;
};

}  // namespace convoy::models
