#pragma once

namespace convoy::models {

/// Places of RMSNorm in a layer, around attention and around the feed-forward.
enum class NormPlace { Before, Around, After };

/// Normalisation of queries and keys before their rotation.
enum class QueryNorm { None, ByHead, OverProjection };

/// Layers whose queries see a window of keys, where no `layer_types` says it.
enum class WindowedLayers {
  None,
  Everywhere,       ///< where there is a `sliding_window`
  FromALayer,       ///< with `use_sliding_window`, from `max_window_layers` on
  WithoutRotation,  ///< with `use_sliding_window`, those that do not rotate
  ButEachNth,       ///< all but each `sliding_window_pattern`-th
  EachOther,        ///< the first, the third, ...
  EachOtherBelow    ///< with `use_sliding_window`, each other one before `max_window_layers`
};

/// Names of a mixture of experts in a layer, and what no key of its config says.
struct ExpertFamily {
  const char* module = "mlp";
  const char* router = "gate";
  const char *gate = "gate_proj", *up = "up_proj", *down = "down_proj";  ///< of an expert
  bool renames_module = false;  ///< transformers calls it `mlp` as it reads a file
  bool stacked = false;         ///< experts have biases, and one matrix for all (nn::ExpertStacks)
  bool shared = false;          ///< all tokens go through one more expert, which has a gate
  bool weights_sum_to_one = false;
};

/// Layers of type `linear_attention`, which have the gated delta rule in place of attention, and
/// their weights.
enum class DeltaLayers {
  None,
  Fused,        ///< q, k and v are one matrix
  Interleaved,  ///< q, k, v and z of a head of keys lie together in one matrix, b and a in one
  Apart         ///< q, k and v are a matrix and a convolution each; the layer has norms before
};

/// A family of decoders: its keys with their defaults, and what no key of its config says.
struct DecoderFamily {
  const char* model_type;
  const char* architecture;
  /// JSON: defaults of keys that other families lack, or have with another default. The keys of
  /// all families are in DecoderConfig::fields(); a family has those of all and these.
  const char* defaults;
  NormPlace norms = NormPlace::Before;
  QueryNorm query_norm = QueryNorm::None;
  WindowedLayers windows = WindowedLayers::None;
  bool biased_queries = false;   ///< q, k and v have biases, o none
  bool fused = false;            ///< q, k and v are one matrix, gate and up another
  bool one_more = false;         ///< norms multiply by 1 + weight
  bool scales_by_width = false;  ///< embeddings are multiplied with the root of their width
  bool rotates_by_type = false;  ///< windowed layers have rotary parameters of their own
  bool caps_scores = true;       ///< attn_logit_softcapping has an effect in Hugging Face's model
  bool scales_queries = false;   ///< by position, with llama_4_scaling_beta
  bool reads_pattern = false;    ///< sliding_window_pattern may be another number
  bool reads_old_rotary = true;  ///< rotary parameters may be rope_theta and rope_scaling, too
  bool reads_images_whole = false;  ///< use_bidirectional_attention = "vision" leaves text as it is
  bool unscaled_scores = false;     ///< products of queries and keys are the scores
  bool norms_values = false;        ///< values are normalised by head, without a weight
  bool layer_scalars = false;       ///< each layer ends with a factor that is not trained
  bool last_is_full = false;        ///< the last layer has no window, whatever layer_types says
  bool sinks = false;               ///< each head has a score for a key without a value
  const ExpertFamily* experts = nullptr;  ///< feed-forward of some layers; null: none has experts
  bool gates_attention = false;  ///< q_proj has a gate of the output behind each head's queries
  DeltaLayers delta = DeltaLayers::None;
  /// Model that Hugging Face takes a file for which has layer_types; null = it reads them.
  const char* with_layer_types = nullptr;
};

// Families, in the order of language_families().
extern const DecoderFamily kGemma2, kGemma3Text, kGemma4Text, kGptOss, kGranite, kLlama,
    kMinistral3, kMistral, kMixtral, kOlmo2, kOlmo3, kOlmoHybrid, kOlmoe, kPhi3, kQwen2, kQwen2Moe,
    kQwen3, kQwen35MoeText, kQwen35Text, kQwen3Moe, kQwen3Next, kSmolLm3;

/// JSON of the defaults that families share where they say nothing else.
extern const char* const kDecoderDefaults;

}  // namespace convoy::models
