#pragma once

#include <optional>
#include <string>

#include "convoy/masking/span_corruption.h"
#include "convoy/models/language_model.h"

namespace convoy::models {

/// Hugging Face's T5Config: its keys by its names, with its defaults.
///
/// The blocks are an encoder and a decoder. They read `input_ids` [B, S] and, where given,
/// `key_mask` [B, S] bool (what is real) and `labels` [B, T] int64 (-100: not asked for), which the
/// decoder sees one place later, or `decoder_input_ids` [B, T]. Without both, spans of `input_ids`
/// are hidden and asked for. With context.cache, `input_ids` are needed only once.
class T5Config : public LanguageModelConfig {
 public:
  int64_t vocab_size = 32128;
  int64_t d_model = 512;
  int64_t d_kv = 64;
  int64_t d_ff = 2048;
  int64_t num_layers_of_encoder = 6;
  std::optional<int64_t> num_decoder_layers;
  int64_t num_heads = 8;
  int64_t relative_attention_num_buckets = 32;
  int64_t relative_attention_max_distance = 128;
  double dropout_rate = 0.1;
  double layer_norm_epsilon = 1e-6;
  double initializer_factor = 1;
  std::string feed_forward_proj = "relu";
  bool tie_word_embeddings = true;
  Json scale_decoder_outputs;
  bool is_encoder_decoder = true;
  double classifier_dropout = 0;
  Json dense_act_fn, is_gated_act;
  Json pad_token_id = 0, eos_token_id = 1, bos_token_id, decoder_start_token_id;

  masking::SpanCorruption corruption;  ///< no part of config.json: the tokenizer knows

  std::string family() const override { return "t5"; }
  std::string architecture() const override { return "T5ForConditionalGeneration"; }
  int64_t num_ids() const override { return vocab_size; }
  int64_t max_length() const override;
  int64_t usual_length() const override { return 512; }
  Objective objective() const override { return Objective::Spans; }
  std::string mask_token() const override { return span_tokens().name(0); }
  SpanTokens span_tokens() const override { return {"<extra_id_", ">", 100}; }
  void hide(const masking::TextMasking&, const masking::SpanCorruption& spans) override {
    corruption = spans;
  }
  std::optional<int64_t> start_id() const override { return first_id(); }
  double training_flops(int64_t length, int64_t asked) const override;
  int64_t num_layers() const override { return num_layers_of_decoder(); }
  int64_t attention_width() const override { return num_heads * d_kv; }
  int64_t key_width() const override { return num_heads * d_kv; }
  int64_t key_width_on(int64_t /*layer*/, const parallel::TensorPlace& place) const override {
    return width_on(place, num_heads, d_kv);
  }
  Fields fields() override;
  nn::BlockList make_blocks() const override;
  nn::Bundle labelled(const nn::Bundle& batch, const nn::Context& context) const override;
  WeightLayout layout() const override;

  int64_t num_layers_of_decoder() const {
    return num_decoder_layers.value_or(num_layers_of_encoder);
  }
  bool gated() const { return feed_forward_proj.starts_with("gated-"); }
  std::string activation() const;
  /// Whether what the decoder gives is divided by the root of its width.
  bool scales_outputs() const;
  int64_t first_id() const;  ///< the id that the decoder sees first

 protected:
  void check_together() const override;
  void finish(Json& json) const override;
};

/// A layer of the stack "encoder" or "decoder": bundle["hidden"] [B, T, d_model] in and out. The
/// first of a stack makes bundle["position_bias"] [1, num_heads, T, S], which the others read;
/// those of the decoder also look at bundle["encoder_hidden"] with its `encoder_mask`. Parameters
/// are named as in Hugging Face's files.
nn::BlockPtr make_t5_layer(const T5Config& config, const std::string& stack, int64_t index);

}  // namespace convoy::models
