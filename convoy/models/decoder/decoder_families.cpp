#include "convoy/models/decoder/decoder_family.h"

// Defaults are those of transformers' configs.
namespace convoy::models {

const char* const kDecoderDefaults = R"({
  "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": null, "head_dim": null,
  "max_position_embeddings": 2048, "initializer_range": 0.02, "rms_norm_eps": 1e-6,
  "tie_word_embeddings": false, "attention_dropout": 0, "rope_theta": 10000, "rope_scaling": null,
  "rope_parameters": null, "original_max_position_embeddings": null, "bos_token_id": null,
  "eos_token_id": null, "pad_token_id": null})";

namespace {

const ExpertFamily kExperts, kSharedExperts{.shared = true},
    kSharedExpertsOfSumOne{.shared = true, .weights_sum_to_one = true},
    kStackedExperts{.router = "router", .stacked = true, .weights_sum_to_one = true},
    kMixtralExperts{.module = "block_sparse_moe",
                    .gate = "w1",
                    .up = "w3",
                    .down = "w2",
                    .renames_module = true,
                    .weights_sum_to_one = true};

}  // namespace

const DecoderFamily kLlama{
    .model_type = "llama", .architecture = "LlamaForCausalLM", .defaults = R"({
      "hidden_act": "silu", "attention_bias": false, "mlp_bias": false, "use_cache": true,
      "pretraining_tp": 1, "bos_token_id": 1, "eos_token_id": 2})"};

const DecoderFamily kGemma2{.model_type = "gemma2",
                            .architecture = "Gemma2ForCausalLM",
                            .defaults = R"({
      "hidden_activation": "gelu_pytorch_tanh", "hidden_act": null, "vocab_size": 256000,
      "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
      "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
      "max_position_embeddings": 8192, "tie_word_embeddings": true, "attention_bias": false,
      "query_pre_attn_scalar": 256, "sliding_window": 4096, "layer_types": null,
      "sliding_window_pattern": 2, "final_logit_softcapping": 30, "attn_logit_softcapping": 50,
      "use_bidirectional_attention": null, "pad_token_id": 0, "eos_token_id": 1,
      "bos_token_id": 2})",
                            .norms = NormPlace::Around,
                            .windows = WindowedLayers::ButEachNth,
                            .one_more = true,
                            .scales_by_width = true};

const DecoderFamily kGemma3Text{.model_type = "gemma3_text",
                                .architecture = "Gemma3ForCausalLM",
                                .defaults = R"({
      "hidden_activation": "gelu_pytorch_tanh", "hidden_act": null, "vocab_size": 262208,
      "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
      "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
      "max_position_embeddings": 131072, "tie_word_embeddings": true, "attention_bias": false,
      "rope_theta": 1000000, "rope_local_base_freq": 10000, "query_pre_attn_scalar": 256,
      "sliding_window": 4096, "layer_types": null, "sliding_window_pattern": 6,
      "final_logit_softcapping": null, "attn_logit_softcapping": null,
      "use_bidirectional_attention": false, "pad_token_id": 0, "eos_token_id": 1,
      "bos_token_id": 2})",
                                .norms = NormPlace::Around,
                                .query_norm = QueryNorm::ByHead,
                                .windows = WindowedLayers::ButEachNth,
                                .one_more = true,
                                .scales_by_width = true,
                                .rotates_by_type = true,
                                .caps_scores = false,
                                .reads_pattern = true};

const DecoderFamily kGemma4Text{.model_type = "gemma4_text",
                                .architecture = "Gemma4ForCausalLM",
                                .defaults = R"({
      "hidden_activation": "gelu_pytorch_tanh", "vocab_size": 262144, "hidden_size": 2304,
      "intermediate_size": 9216, "num_hidden_layers": 30, "num_attention_heads": 8,
      "num_key_value_heads": 4, "head_dim": 256, "global_head_dim": 512,
      "num_global_key_value_heads": null, "max_position_embeddings": 131072,
      "tie_word_embeddings": true, "attention_bias": false, "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000},
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
          "rope_theta": 1000000}},
      "sliding_window": 512, "layer_types": null, "sliding_window_pattern": 6,
      "final_logit_softcapping": null, "use_bidirectional_attention": null,
      "vocab_size_per_layer_input": null, "hidden_size_per_layer_input": 256,
      "attention_k_eq_v": false, "num_kv_shared_layers": 0, "use_double_wide_mlp": false,
      "enable_moe_block": false, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2})",
                                .norms = NormPlace::Around,
                                .query_norm = QueryNorm::ByHead,
                                .windows = WindowedLayers::ButEachNth,
                                .scales_by_width = true,
                                .rotates_by_type = true,
                                .reads_old_rotary = false,
                                .reads_images_whole = true,
                                .unscaled_scores = true,
                                .norms_values = true,
                                .layer_scalars = true,
                                .last_is_full = true};

const DecoderFamily kGptOss{.model_type = "gpt_oss",
                            .architecture = "GptOssForCausalLM",
                            .defaults = R"({
      "hidden_act": "silu", "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880,
      "num_hidden_layers": 36, "num_attention_heads": 64, "num_key_value_heads": 8,
      "head_dim": 64, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5,
      "attention_bias": true, "sliding_window": 128, "layer_types": null, "rope_theta": 150000,
      "rope_parameters": {"rope_type": "yarn", "factor": 32, "beta_fast": 32, "beta_slow": 1,
        "truncate": false, "original_max_position_embeddings": 4096},
      "num_local_experts": 128, "num_experts_per_tok": 4, "swiglu_alpha": 1.702,
      "swiglu_limit": 7, "output_router_logits": false, "router_aux_loss_coef": 0.001})",
                            .windows = WindowedLayers::EachOther,
                            .sinks = true,
                            .experts = &kStackedExperts};

const DecoderFamily kGranite{
    .model_type = "granite", .architecture = "GraniteForCausalLM", .defaults = R"({
      "hidden_act": "silu", "attention_bias": false, "mlp_bias": false, "embedding_multiplier": 1,
      "logits_scaling": 1, "residual_multiplier": 1, "attention_multiplier": 1, "bos_token_id": 1,
      "eos_token_id": 2})"};

const DecoderFamily kMinistral3{.model_type = "ministral3",
                                .architecture = "Ministral3ForCausalLM",
                                .defaults = R"({
      "hidden_act": "silu", "vocab_size": 131072, "intermediate_size": 14336,
      "num_hidden_layers": 34, "num_key_value_heads": 8, "head_dim": 128,
      "max_position_embeddings": 262144, "rms_norm_eps": 1e-5, "sliding_window": null,
      "rope_theta": 1000000, "rope_parameters": {"rope_type": "yarn", "factor": 16,
        "original_max_position_embeddings": 16384, "beta_fast": 32, "beta_slow": 1,
        "mscale_all_dim": 1, "mscale": 1, "llama_4_scaling_beta": 0.1},
      "pad_token_id": 11, "bos_token_id": 1, "eos_token_id": 2})",
                                .windows = WindowedLayers::Everywhere,
                                .scales_queries = true};

const DecoderFamily kMistral{.model_type = "mistral",
                             .architecture = "MistralForCausalLM",
                             .defaults = R"({
      "hidden_act": "silu", "intermediate_size": 14336, "num_key_value_heads": 8,
      "max_position_embeddings": 131072, "sliding_window": 4096, "bos_token_id": 1,
      "eos_token_id": 2})",
                             .windows = WindowedLayers::Everywhere,
                             .with_layer_types = "ministral"};

const DecoderFamily kMixtral{.model_type = "mixtral",
                             .architecture = "MixtralForCausalLM",
                             .defaults = R"({
      "hidden_act": "silu", "intermediate_size": 14336, "num_key_value_heads": 8,
      "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 1000000,
      "sliding_window": null, "num_local_experts": 8, "num_experts_per_tok": 2,
      "output_router_logits": false, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0,
      "bos_token_id": 1, "eos_token_id": 2})",
                             .windows = WindowedLayers::Everywhere,
                             .experts = &kMixtralExperts};

const DecoderFamily kOlmo2{.model_type = "olmo2",
                           .architecture = "Olmo2ForCausalLM",
                           .defaults = R"({
      "hidden_act": "silu", "vocab_size": 50304, "rms_norm_eps": 1e-5, "attention_bias": false,
      "pad_token_id": 1, "eos_token_id": 50279})",
                           .norms = NormPlace::After,
                           .query_norm = QueryNorm::OverProjection};

const DecoderFamily kOlmo3{.model_type = "olmo3",
                           .architecture = "Olmo3ForCausalLM",
                           .defaults = R"({
      "hidden_act": "silu", "vocab_size": 50304, "rms_norm_eps": 1e-5, "attention_bias": false,
      "rope_theta": 500000, "sliding_window": 4096, "layer_types": null,
      "sliding_window_pattern": 4, "pad_token_id": 1, "eos_token_id": 50279})",
                           .norms = NormPlace::After,
                           .query_norm = QueryNorm::OverProjection,
                           .windows = WindowedLayers::ButEachNth,
                           .rotates_by_type = true};

const DecoderFamily kOlmoe{.model_type = "olmoe",
                           .architecture = "OlmoeForCausalLM",
                           .defaults = R"({
      "hidden_act": "silu", "vocab_size": 50304, "hidden_size": 2048, "intermediate_size": 2048,
      "num_hidden_layers": 16, "num_attention_heads": 16, "max_position_embeddings": 4096,
      "rms_norm_eps": 1e-5, "attention_bias": false, "clip_qkv": null, "num_experts": 64,
      "num_experts_per_tok": 8, "norm_topk_prob": false, "output_router_logits": false,
      "router_aux_loss_coef": 0.01, "pad_token_id": 1, "eos_token_id": 50279})",
                           .query_norm = QueryNorm::OverProjection,
                           .experts = &kExperts};
const DecoderFamily kOlmoHybrid{.model_type = "olmo_hybrid",
                                .architecture = "OlmoHybridForCausalLM",
                                .defaults = R"({
      "hidden_act": "silu", "vocab_size": 100352, "hidden_size": 3840, "num_attention_heads": 30,
      "max_position_embeddings": 65536, "attention_bias": false, "layer_types": null,
      "linear_conv_kernel_dim": 4, "linear_num_key_heads": null, "linear_num_value_heads": null,
      "linear_key_head_dim": null, "linear_value_head_dim": null, "linear_allow_neg_eigval": true,
      "linear_a_log_min": 0, "linear_a_log_max": 16, "linear_dt_min": 0.001, "linear_dt_max": 0.1,
      "linear_dt_init_floor": 1e-4, "pad_token_id": 100277, "eos_token_id": 100257})",
                                .norms = NormPlace::After,
                                .query_norm = QueryNorm::OverProjection,
                                .delta = DeltaLayers::Apart};

const DecoderFamily kPhi3{.model_type = "phi3",
                          .architecture = "Phi3ForCausalLM",
                          .defaults = R"({
      "hidden_act": "silu", "vocab_size": 32064, "hidden_size": 3072, "intermediate_size": 8192,
      "max_position_embeddings": 4096, "original_max_position_embeddings": 4096,
      "rms_norm_eps": 1e-5, "resid_pdrop": 0, "embd_pdrop": 0, "partial_rotary_factor": 1,
      "sliding_window": null, "bos_token_id": 1, "eos_token_id": 32000, "pad_token_id": 32000})",
                          .windows = WindowedLayers::Everywhere,
                          .fused = true};

const DecoderFamily kQwen2{.model_type = "qwen2",
                           .architecture = "Qwen2ForCausalLM",
                           .defaults = R"({
      "hidden_act": "silu", "vocab_size": 151936, "intermediate_size": 22016,
      "num_key_value_heads": 32, "max_position_embeddings": 32768, "use_sliding_window": false,
      "sliding_window": 4096, "max_window_layers": 28, "layer_types": null})",
                           .windows = WindowedLayers::FromALayer,
                           .biased_queries = true};

const DecoderFamily kQwen2Moe{.model_type = "qwen2_moe",
                              .architecture = "Qwen2MoeForCausalLM",
                              .defaults = R"({
      "hidden_act": "silu", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632,
      "num_hidden_layers": 24, "num_attention_heads": 16, "num_key_value_heads": 16,
      "max_position_embeddings": 32768, "qkv_bias": true, "use_sliding_window": false,
      "sliding_window": 4096, "max_window_layers": 28, "layer_types": null,
      "decoder_sparse_step": 1, "mlp_only_layers": null, "num_experts": 60,
      "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
      "shared_expert_intermediate_size": 5632, "norm_topk_prob": false,
      "output_router_logits": false, "router_aux_loss_coef": 0.001})",
                              .windows = WindowedLayers::EachOtherBelow,
                              .experts = &kSharedExperts};

const DecoderFamily kQwen3{.model_type = "qwen3",
                           .architecture = "Qwen3ForCausalLM",
                           .defaults = R"({
      "hidden_act": "silu", "vocab_size": 151936, "intermediate_size": 22016,
      "num_key_value_heads": 32, "head_dim": 128, "max_position_embeddings": 32768,
      "attention_bias": false, "use_sliding_window": false, "sliding_window": 4096,
      "max_window_layers": 28, "layer_types": null})",
                           .query_norm = QueryNorm::ByHead,
                           .windows = WindowedLayers::FromALayer};

const DecoderFamily kQwen3Moe{.model_type = "qwen3_moe",
                              .architecture = "Qwen3MoeForCausalLM",
                              .defaults = R"({
      "hidden_act": "silu", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144,
      "num_hidden_layers": 24, "num_attention_heads": 32, "num_key_value_heads": 4,
      "max_position_embeddings": 32768, "attention_bias": false, "use_sliding_window": false,
      "sliding_window": 4096, "decoder_sparse_step": 1, "mlp_only_layers": null,
      "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
      "norm_topk_prob": false, "output_router_logits": false, "router_aux_loss_coef": 0.001})",
                              .query_norm = QueryNorm::ByHead,
                              .windows = WindowedLayers::Everywhere,
                              .experts = &kExperts};

const DecoderFamily kQwen3Next{.model_type = "qwen3_next",
                               .architecture = "Qwen3NextForCausalLM",
                               .defaults = R"({
      "hidden_act": "silu", "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 5632,
      "num_hidden_layers": 48, "num_attention_heads": 16, "num_key_value_heads": 2,
      "head_dim": 256, "max_position_embeddings": 32768, "attention_bias": false,
      "partial_rotary_factor": 0.25, "layer_types": null, "full_attention_interval": 4,
      "linear_conv_kernel_dim": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
      "linear_key_head_dim": 128, "linear_value_head_dim": 128, "decoder_sparse_step": 1,
      "mlp_only_layers": null, "num_experts": 512, "num_experts_per_tok": 10,
      "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
      "norm_topk_prob": true, "output_router_logits": false, "router_aux_loss_coef": 0.001})",
                               .query_norm = QueryNorm::ByHead,
                               .one_more = true,
                               .experts = &kSharedExperts,
                               .gates_attention = true,
                               .delta = DeltaLayers::Interleaved};

const DecoderFamily kQwen35MoeText{.model_type = "qwen3_5_moe_text",
                                   .architecture = "Qwen3_5MoeForCausalLM",
                                   .defaults = R"({
      "hidden_act": "silu", "vocab_size": 248320, "hidden_size": 2048, "num_hidden_layers": 40,
      "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256,
      "max_position_embeddings": 32768, "attention_bias": false, "partial_rotary_factor": 0.25,
      "layer_types": null, "full_attention_interval": 4, "linear_conv_kernel_dim": 4,
      "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
      "linear_value_head_dim": 128, "num_experts": 256, "num_experts_per_tok": 8,
      "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
      "output_router_logits": false, "router_aux_loss_coef": 0.001})",
                                   .query_norm = QueryNorm::ByHead,
                                   .one_more = true,
                                   .experts = &kSharedExpertsOfSumOne,
                                   .gates_attention = true,
                                   .delta = DeltaLayers::Fused};

const DecoderFamily kQwen35Text{.model_type = "qwen3_5_text",
                                .architecture = "Qwen3_5ForCausalLM",
                                .defaults = R"({
      "hidden_act": "silu", "vocab_size": 248320, "intermediate_size": 12288,
      "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256,
      "max_position_embeddings": 32768, "attention_bias": false, "partial_rotary_factor": 0.25,
      "layer_types": null, "full_attention_interval": 4, "linear_conv_kernel_dim": 4,
      "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
      "linear_value_head_dim": 128})",
                                .query_norm = QueryNorm::ByHead,
                                .one_more = true,
                                .gates_attention = true,
                                .delta = DeltaLayers::Fused};

const DecoderFamily kSmolLm3{.model_type = "smollm3",
                             .architecture = "SmolLM3ForCausalLM",
                             .defaults = R"({
      "hidden_act": "silu", "vocab_size": 128256, "hidden_size": 2048, "num_hidden_layers": 36,
      "num_attention_heads": 16, "num_key_value_heads": 4, "max_position_embeddings": 32768,
      "rope_theta": 2000000, "attention_bias": false, "mlp_bias": false,
      "tie_word_embeddings": true, "no_rope_layers": null, "no_rope_layer_interval": 4,
      "use_sliding_window": false, "sliding_window": null, "layer_types": null,
      "pad_token_id": 128004, "bos_token_id": 128000, "eos_token_id": 128001})",
                             .windows = WindowedLayers::WithoutRotation};

}  // namespace convoy::models
