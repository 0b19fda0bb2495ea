#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/models/decoder/decoder.h"
#include "convoy/models/padding_row.h"
#include "convoy/models/wrapper.h"
#include "convoy/nn/layers/activation.h"

namespace convoy::models {

namespace {

constexpr double kMostTaps = 64;  // of a convolution

}  // namespace

DecoderConfig::DecoderConfig(const DecoderFamily& family)
    : family_(&family), defaults_(parse_json(kDecoderDefaults, "defaults of decoders")) {
  if (!family.reads_old_rotary) {
    for (const char* key : {"rope_theta", "rope_scaling", "original_max_position_embeddings"}) {
      defaults_.erase(key);
    }
  }
  defaults_.update(parse_json(family.defaults, family.model_type));
  auto given = defaults_;
  take_fields(given, fields(), family.model_type);
  internal_check(given.empty(), "models", "a default of {} has no field: {}", family.model_type,
                 given.dump());
}

Fields DecoderConfig::fields() {
  const bool unused =
      defaults_.contains("hidden_activation") || (family_->experts && family_->experts->stacked);
  const char* activation = "activation of the feed-forward layers";
  const Fields all{
      {"vocab_size", &vocab_size, "size of the vocabulary", 1, kMostIds},
      {"hidden_size", &hidden_size, "width of the hidden states", 1, kWidest},
      {"intermediate_size", &intermediate_size, "width of the feed-forward layers", 1, kWidest},
      {"num_hidden_layers", &num_hidden_layers, "layers", 0, kDeepest},
      {"num_attention_heads", &num_attention_heads, "attention heads", 1, kWidest},
      {"num_key_value_heads", &num_key_value_heads,
       "key and value heads; none = num_attention_heads", 1, kWidest},
      {"head_dim", &head_dim, "width of a head; none = hidden_size / num_attention_heads", 2,
       kWidest},
      unused ? Field{"hidden_act", &other_act, "kept for other tools"}
             : Field{"hidden_act", &hidden_act, activation, 0, 0, nn::activations()},
      {"hidden_activation", &hidden_act, activation, 0, 0, nn::activations()},
      {"global_head_dim", &global_head_dim,
       "width of a head in layers without a window; none = head_dim", 2, kWidest},
      {"num_global_key_value_heads", &num_global_key_value_heads,
       "key heads of layers without a window, with attention_k_eq_v; none = num_key_value_heads", 1,
       kWidest},
      {"attention_k_eq_v", &attention_k_eq_v,
       "keys of layers without a window are their values, too"},
      {"num_kv_shared_layers", &num_kv_shared_layers,
       "the last layers, which read keys and values of earlier ones", 0, kDeepest},
      {"use_double_wide_mlp", &use_double_wide_mlp,
       "feed-forward layers are twice as wide where keys are of an earlier layer"},
      {"hidden_size_per_layer_input", &hidden_size_per_layer_input,
       "width of what each layer reads of a second embedding; 0 or none: there is none", 0,
       kWidest},
      {"vocab_size_per_layer_input", &vocab_size_per_layer_input,
       "rows of the second embedding; none = vocab_size", 1, kMostIds},
      {"enable_moe_block", &enable_moe_block,
       "experts beside the feed-forward; only false is taken"},
      {"max_position_embeddings", &max_position_embeddings, "maximum sequence length of the model",
       1, kMostIds},
      {"initializer_range", &initializer_range, "standard deviation of initial weights", 0},
      {"rms_norm_eps", &rms_norm_eps, "epsilon of normalisation layers", 0},
      {"tie_word_embeddings", &tie_word_embeddings, "share the embedding with the output layer"},
      {"attention_bias", &attention_bias, "attention projections have a bias"},
      {"mlp_bias", &mlp_bias, "feed-forward projections have a bias"},
      {"attention_dropout", &attention_dropout, "dropout on attention probabilities", 0,
       kMostDropped},
      {"resid_pdrop", &resid_pdrop, "dropout on residual branches", 0, kMostDropped},
      {"embd_pdrop", &embd_pdrop, "has no effect in Hugging Face's model; only 0 is taken", 0, 0},
      {"rope_theta", &rope_theta, "base of the rotary embedding (RoPE)", 1e-9},
      {"rope_local_base_freq", &rope_local_base_freq, "base of RoPE in layers with a window", 1e-9},
      {"partial_rotary_factor", &partial_rotary_factor, "part of a head that rotates", 0, 1},
      {"rope_scaling", &rope_scaling, "RoPE scaling as JSON, in the format of transformers 4.x"},
      {"rope_parameters", &rope_parameters,
       "the same with rope_theta, in the format of transformers 5.x"},
      {"original_max_position_embeddings", &original_max_position_embeddings,
       "maximum sequence length before RoPE scaling; none = as in the RoPE parameters", 1,
       kMostIds},
      {"use_sliding_window", &use_sliding_window, "some layers have a window"},
      {"sliding_window", &sliding_window,
       "keys that a position of a layer with a window sees, its own included; none = all", 0,
       kMostIds},
      {"max_window_layers", &max_window_layers,
       family_->windows == WindowedLayers::EachOtherBelow
           ? "every other one of so many first layers has a window"
           : "the first layers, which have no window",
       0, kDeepest},
      {.name = "sliding_window_pattern",
       .value = &sliding_window_pattern,
       .help = "each so many-th layer has no window",
       .low = 1,
       .high = kDeepest,
       .aliases = {"_sliding_window_pattern"}},
      {"layer_types", &layer_types,
       family_->delta == DeltaLayers::None
           ? "type of each layer as JSON, full_attention or sliding_attention; none = by the others"
           : "type of each layer as JSON, full_attention or linear_attention; none = by the "
             "others"},
      {"full_attention_interval", &full_attention_interval,
       "each so many-th layer has attention, the others the gated delta rule", 1, kDeepest},
      {"linear_conv_kernel_dim", &linear_conv_kernel_dim,
       "positions that the convolution of a layer with the gated delta rule sees", 1, kMostTaps},
      {"linear_num_key_heads", &linear_num_key_heads,
       "heads of keys of layers with the gated delta rule", 1, kWidest},
      {"linear_num_value_heads", &linear_num_value_heads,
       "heads of values of layers with the gated delta rule", 1, kWidest},
      {"linear_key_head_dim", &linear_key_head_dim,
       "width of a head of keys of layers with the gated delta rule", 1, kWidest},
      {"linear_value_head_dim", &linear_value_head_dim,
       "width of a head of values of layers with the gated delta rule", 1, kWidest},
      {"linear_allow_neg_eigval", &linear_allow_neg_eigval,
       "the gated delta rule corrects its state by up to twice the error"},
      {"linear_a_log_min", &linear_a_log_min, "least initial speed of forgetting", 0},
      {"linear_a_log_max", &linear_a_log_max, "largest initial speed of forgetting", 1e-9},
      {"linear_dt_min", &linear_dt_min, "least initial step of time", 1e-9},
      {"linear_dt_max", &linear_dt_max, "largest initial step of time", 1e-9},
      {"linear_dt_init_floor", &linear_dt_init_floor, "bound of initial steps of time", 0},
      {"no_rope_layers", &no_rope_layers,
       "which layers rotate (1) and which do not (0), as JSON; none = by no_rope_layer_interval"},
      {"no_rope_layer_interval", &no_rope_layer_interval, "each so many-th layer does not rotate",
       1, kDeepest},
      {"embedding_multiplier", &embedding_multiplier, "factor of embeddings"},
      {"logits_scaling", &logits_scaling, "divides logits", 1e-9},
      {"residual_multiplier", &residual_multiplier, "factor of residual branches"},
      {"attention_multiplier", &attention_multiplier, "factor of scores", 1e-9},
      {"query_pre_attn_scalar", &query_pre_attn_scalar, "its inverse root is the factor of scores",
       1, kWidest},
      {"attn_logit_softcapping", &attn_logit_softcapping, "bound of scores; none = unbounded",
       1e-9},
      {"final_logit_softcapping", &final_logit_softcapping, "bound of logits; none = unbounded",
       1e-9},
      {.name = "num_experts",
       .value = &num_experts,
       .help = "experts of a layer",
       .low = 1,
       .high = kWidest,
       .aliases = {"num_local_experts"}},
      {.name = "num_local_experts",
       .value = &num_experts,
       .help = "experts of a layer",
       .low = 1,
       .high = kWidest,
       .aliases = {"num_experts"}},
      {"num_experts_per_tok", &num_experts_per_tok, "experts that each token is sent to", 1,
       kWidest},
      {"moe_intermediate_size", &moe_intermediate_size, "width of an expert", 1, kWidest},
      {"shared_expert_intermediate_size", &shared_expert_intermediate_size,
       "width of the expert that all tokens go through", 1, kWidest},
      {"norm_topk_prob", &norm_topk_prob, "weights of a token's experts sum to 1"},
      {"decoder_sparse_step", &decoder_sparse_step, "each so many-th layer has experts", 1,
       kDeepest},
      {"mlp_only_layers", &mlp_only_layers, "layers without experts, as JSON; none = no such list"},
      {"output_router_logits", &output_router_logits,
       "the loss has a part that balances the use of experts"},
      {"router_aux_loss_coef", &router_aux_loss_coef, "factor of the loss that balances experts",
       0},
      {"router_jitter_noise", &router_jitter_noise, "noise of the router's input; only 0 is taken",
       0, 0},
      {"swiglu_alpha", &swiglu_alpha, "factor of an expert's gate in its sigmoid"},
      {"swiglu_limit", &swiglu_limit, "bound of an expert's gate and of what it multiplies", 1e-9},
      {"qkv_bias", &qkv_bias, "projections of queries, keys and values have a bias"},
      {"clip_qkv", &clip_qkv, "bound of queries, keys and values; none = unbounded", 1e-9},
      {"use_bidirectional_attention", &use_bidirectional_attention, "only false or none is taken"},
      {"use_cache", &use_cache, "kept for other tools"},
      {"pretraining_tp", &pretraining_tp, "kept for other tools", 1, kWidest},
      {"bos_token_id", &bos_token_id, "id that begins a text; kept for other tools"},
      {"eos_token_id", &eos_token_id, "id that ends a text; kept for other tools"},
      {"pad_token_id", &pad_token_id,
       "id of padding, whose input embedding is not trained; negative: from the end"},
  };
  Fields out;
  for (const auto& field : all) {
    if (defaults_.contains(field.name)) out.push_back(field);
  }
  if (defaults_.contains("enable_moe_block")) {
    constexpr const char* kKept = "kept for other tools";
    out.push_back({"num_experts", &other_num_experts, kKept});
    out.push_back({"top_k_experts", &other_num_chosen, kKept});
    out.push_back({"moe_intermediate_size", &other_expert_width, kKept});
  }
  return out;
}

std::optional<int64_t> DecoderConfig::padding_row() const {
  return models::padding_row(pad_token_id, vocab_size);
}

double DecoderConfig::score_scale() const {
  if (family_->unscaled_scores) return 1;
  if (query_pre_attn_scalar) return 1 / std::sqrt(static_cast<double>(*query_pre_attn_scalar));
  if (attention_multiplier) return *attention_multiplier;
  return 1 / std::sqrt(static_cast<double>(head_width()));
}

double root_in(at::ScalarType compute, int64_t width) {
  const auto root = static_cast<float>(std::sqrt(static_cast<double>(width)));
  if (compute == at::kBFloat16) return static_cast<float>(c10::BFloat16(root));
  if (compute == at::kHalf) return static_cast<float>(c10::Half(root));
  return root;
}

double DecoderConfig::embedding_scale(at::ScalarType compute) const {
  return family_->scales_by_width ? root_in(compute, hidden_size) : embedding_multiplier;
}

void DecoderConfig::check_together() const {
  if (!head_dim && hidden_size % num_attention_heads != 0) {
    fail<UsageError>("models", "hidden_size = {} does not divide into num_attention_heads = {}",
                     hidden_size, num_attention_heads);
  }
  for (const auto type : {LayerType::Full, LayerType::Windowed}) check_widths(type);
  const bool of_images = family_->reads_images_whole && use_bidirectional_attention == "vision";
  if (!use_bidirectional_attention.is_null() && use_bidirectional_attention != false &&
      !of_images) {
    fail<UsageError>("models", "use_bidirectional_attention = {} is not supported; expected {}",
                     use_bidirectional_attention.dump(),
                     family_->reads_images_whole ? "none or vision" : "false");
  }
  if (attn_logit_softcapping && !family_->caps_scores) {
    fail<UsageError>("models",
                     "attn_logit_softcapping = {} has no effect in Hugging Face's model; expected "
                     "none",
                     *attn_logit_softcapping);
  }
  if (final_logit_softcapping && wrapper() != nullptr && !wrapper()->caps_logits) {
    fail<UsageError>("models",
                     "final_logit_softcapping = {} has no effect in Hugging Face's {}; expected "
                     "none",
                     *final_logit_softcapping, wrapper()->architecture);
  }
  padding_row();
  check_layers();
  check_lending();
  check_experts();
  check_delta();
  for (const auto type : {LayerType::Full, LayerType::Windowed}) {
    check_rotary(type);
  }
}

void DecoderConfig::check_others(const Json& others, const std::string& where) const {
  if (family_->with_layer_types == nullptr || !others.contains("layer_types")) return;
  fail<FileError>("models",
                  "{}: Hugging Face takes a {} with layer_types for a {}, whose windows go by "
                  "layer, which is not supported; try without layer_types",
                  where, family(), family_->with_layer_types);
}

void DecoderConfig::check_rotary(LayerType type) const {
  const auto options = rotary(type);
  if (options.type == "dynamic" && head_width(type) == 2) {
    fail<UsageError>("models", "rope_type dynamic needs heads wider than 2");
  }
  const int64_t width = rotary_width(type);
  if (width < 2 || width % 2 != 0 || width > head_width(type)) {
    fail<UsageError>("models",
                     "partial_rotary_factor leaves {} of a head's {} to rotate; expected an even "
                     "number of them",
                     width, head_width(type));
  }
  for (const auto* factors : {&options.short_factors, &options.long_factors}) {
    if (options.type != "longrope" || 2 * std::ssize(*factors) == width) continue;
    fail<UsageError>("models",
                     "rope_type longrope has {} factors; expected {}, half of what rotates",
                     factors->size(), width / 2);
  }
}

void DecoderConfig::finish_rotary(Json& json) const {
  auto dict = rope_dict(LayerType::Full);
  json["rope_parameters"] = dict;
  if (family_->rotates_by_type) {
    auto of_windows = rope_dict(LayerType::Windowed);
    if (defaults_.contains("rope_local_base_freq")) {
      json["rope_local_base_freq"] = of_windows["rope_theta"];
    }
    json["rope_parameters"] = {{kFullAttention, dict}, {kWindowedAttention, of_windows}};
  }
  if (!family_->reads_old_rotary) return;
  if (!has_rope_theta()) json["rope_parameters"]["rope_theta"] = dict["rope_theta"] = Json();
  json["rope_theta"] = dict["rope_theta"];
  json["rope_scaling"] = dict["rope_type"] == "default" ? Json() : dict;
  if (!original_max_position_embeddings) json.erase("original_max_position_embeddings");
}

void DecoderConfig::finish(Json& json) const {
  finish_rotary(json);
  if (json.contains("mlp_only_layers") && mlp_only_layers.is_null()) {
    json["mlp_only_layers"] = Json::array();
  }
  json["head_dim"] = head_width();
  json["num_key_value_heads"] = num_key_heads();
  if (defaults_.contains("global_head_dim")) {
    json["per_layer_config"] = widths_by_layer();
    json["global_head_dim"] = head_width(LayerType::Full);
    json["hidden_size_per_layer_input"] = layer_input_width();
    json["vocab_size_per_layer_input"] = vocab_size_per_layer_input.value_or(vocab_size);
  }
  if (family_->delta == DeltaLayers::None) return;
  const auto heads = delta_heads();
  json["linear_num_key_heads"] = heads.keys;
  json["linear_num_value_heads"] = heads.values;
  json["linear_key_head_dim"] = heads.key_width;
  json["linear_value_head_dim"] = heads.value_width;
}

}  // namespace convoy::models
