#pragma once

#include <optional>
#include <string>

#include "convoy/models/decoder/decoder_family.h"
#include "convoy/models/language_model.h"
#include "convoy/nn/attention/rotary.h"
#include "convoy/nn/delta/delta_heads.h"

namespace convoy::models {

/// Types of a decoder's layers, and their names in `layer_types`.
enum class LayerType { Full, Windowed, Linear };
inline constexpr const char* kFullAttention = "full_attention";
inline constexpr const char* kWindowedAttention = "sliding_attention";
inline constexpr const char* kLinearAttention = "linear_attention";

/// Name of a type in `layer_types`.
const char* name_of(LayerType type);

/// Root of a width, rounded to `compute` as Hugging Face's models round it to the dtype of their
/// weights.
double root_in(at::ScalarType compute, int64_t width);

/// Config of a family of decoders: Hugging Face's keys by their names, with its defaults. Rotary
/// settings are read in the spelling of transformers 4.x (rope_theta, rope_scaling) and 5.x
/// (rope_parameters).
class DecoderConfig : public LanguageModelConfig {
 public:
  explicit DecoderConfig(const DecoderFamily& family = kLlama);

  int64_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  std::optional<int64_t> num_key_value_heads, head_dim;
  std::string hidden_act;
  int64_t max_position_embeddings = 0;
  double initializer_range = 0, rms_norm_eps = 0;
  bool tie_word_embeddings = false;
  bool attention_bias = false, mlp_bias = false;
  double attention_dropout = 0, resid_pdrop = 0, embd_pdrop = 0;
  std::optional<double> rope_theta;
  double rope_local_base_freq = 0, partial_rotary_factor = 1;
  Json rope_scaling, rope_parameters;
  std::optional<int64_t> original_max_position_embeddings;
  bool use_sliding_window = true;
  std::optional<int64_t> sliding_window;
  int64_t max_window_layers = 0, sliding_window_pattern = 1, no_rope_layer_interval = 0;
  Json layer_types, no_rope_layers;
  int64_t full_attention_interval = 0;
  int64_t linear_conv_kernel_dim = 4;
  std::optional<int64_t> linear_key_head_dim, linear_value_head_dim;
  std::optional<int64_t> linear_num_key_heads, linear_num_value_heads;
  bool linear_allow_neg_eigval = false;
  double linear_a_log_min = 0.01, linear_a_log_max = 16;
  double linear_dt_min = 0, linear_dt_max = 0, linear_dt_init_floor = 0;
  double embedding_multiplier = 1, residual_multiplier = 1, logits_scaling = 1;
  std::optional<double> attention_multiplier;
  std::optional<int64_t> query_pre_attn_scalar;
  std::optional<double> attn_logit_softcapping, final_logit_softcapping;
  int64_t num_experts = 0, num_experts_per_tok = 0, decoder_sparse_step = 1;
  std::optional<int64_t> moe_intermediate_size;
  int64_t shared_expert_intermediate_size = 0;
  Json mlp_only_layers;
  bool norm_topk_prob = false, output_router_logits = false, qkv_bias = false;
  double router_aux_loss_coef = 0, router_jitter_noise = 0;
  double swiglu_alpha = 0, swiglu_limit = 0;
  std::optional<int64_t> global_head_dim, num_global_key_value_heads;
  bool attention_k_eq_v = false, use_double_wide_mlp = false, enable_moe_block = false;
  int64_t num_kv_shared_layers = 0;
  std::optional<int64_t> hidden_size_per_layer_input, vocab_size_per_layer_input;
  std::optional<double> clip_qkv;
  bool use_cache = true;
  int64_t pretraining_tp = 1;
  Json bos_token_id, eos_token_id, pad_token_id, other_act, use_bidirectional_attention;
  Json other_num_experts, other_num_chosen, other_expert_width;

  const DecoderFamily& row() const { return *family_; }
  std::string family() const override { return family_->model_type; }
  std::string architecture() const override { return family_->architecture; }
  int64_t num_ids() const override { return vocab_size; }
  int64_t max_length() const override { return max_position_embeddings; }
  int64_t position_limit() const override;
  int64_t num_layers() const override { return num_hidden_layers; }
  int64_t attention_width() const override { return num_attention_heads * head_width(); }
  int64_t key_width() const override { return num_key_heads() * head_width(); }
  int64_t key_width_on(int64_t layer, const parallel::TensorPlace& place) const override;
  std::optional<double> state_bytes(int64_t layer, at::ScalarType dtype,
                                    const parallel::TensorPlace& place) const override;
  double training_flops(int64_t length, int64_t asked = 0) const override;
  Fields fields() override;
  nn::BlockList make_blocks() const override;
  WeightLayout layout() const override;
  /// Beginning of names of all weights but the head's.
  std::string body() const;

  int64_t num_key_heads() const { return num_key_value_heads.value_or(num_attention_heads); }
  int64_t head_width() const { return head_dim.value_or(hidden_size / num_attention_heads); }
  /// Heads of keys, and width of a head, in layers of a type.
  int64_t num_key_heads(LayerType type) const;
  int64_t head_width(LayerType type) const;
  /// Whether keys of a layer of a type are its values, too.
  bool keys_are_values(LayerType type) const {
    return attention_k_eq_v && type != LayerType::Windowed;
  }
  /// Layer whose keys and values a layer reads: itself, or an earlier one of its type.
  int64_t keys_of(int64_t layer) const;
  /// Whether later layers read a layer's keys and values.
  bool lends_keys(int64_t layer) const;
  /// Width of a layer's feed-forward.
  int64_t feed_forward_width(int64_t layer) const;
  /// Width of what each layer reads of a second embedding; 0 = there is none.
  int64_t layer_input_width() const { return hidden_size_per_layer_input.value_or(0); }
  /// Row of the embedding that Hugging Face leaves untrained, by pad_token_id; none without one.
  std::optional<int64_t> padding_row() const;
  LayerType layer_type(int64_t layer) const;
  /// Heads of the layers with the gated delta rule.
  nn::DeltaHeads delta_heads() const;
  int64_t window_of(int64_t layer) const override;
  /// Whether a layer rotates queries and keys.
  bool rotates(int64_t layer) const;
  /// Whether a layer's feed-forward is a mixture of experts.
  bool has_experts(int64_t layer) const;
  bool any_experts() const;
  /// Width F of an expert.
  int64_t expert_width() const { return moe_intermediate_size.value_or(intermediate_size); }
  /// Factor of the loss that balances experts; 0 = there is none.
  double balancing() const;
  /// Factor of the products of queries and keys.
  double score_scale() const;
  /// Factor of embeddings, for a model that computes in `compute`.
  double embedding_scale(at::ScalarType compute) const;
  /// Throws UsageError on a kind of rotary embedding, or a key of it, that is not known.
  nn::RotaryOptions rotary(LayerType type = LayerType::Full) const;
  /// Part of a head that rotates.
  int64_t rotary_width(LayerType type = LayerType::Full) const;

 protected:
  void check_together() const override;
  void check_others(const Json& others, const std::string& where) const override;
  void take_others(Json& others, const std::string& where) override;
  void finish(Json& json) const override;
  bool may_be_wrapped() const override { return true; }

 private:
  Json rope_dict(LayerType type) const;
  /// Whether layers have a base of rotation.
  bool has_rope_theta() const;
  void check_layers() const;
  void check_experts() const;
  void check_widths(LayerType type) const;
  void check_lending() const;
  void finish_rotary(Json& json) const;
  /// Widths that full layers have of their own, by layer, as transformers 5 writes them.
  Json widths_by_layer() const;
  std::vector<WeightLayout::Alias> names_of_norms() const;
  void check_delta() const;
  /// Type of a layer of a family with the gated delta rule, without `layer_types`.
  LayerType usual_delta_type(int64_t layer) const;
  /// Products of a position in a layer with the gated delta rule, beside those with weights.
  double delta_products() const;
  void check_rotary(LayerType type) const;

  const DecoderFamily* family_;
  Json defaults_;  // of this family's keys
};

}  // namespace convoy::models
