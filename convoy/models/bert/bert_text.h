#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/masking/text_masking.h"
#include "convoy/models/bert/bert.h"
#include "convoy/models/language_model.h"

namespace convoy::models {

/// Hugging Face's BertConfig: its keys by its names, with its defaults. Its blocks are trained to
/// name hidden tokens; make_classifier() gives those that sort texts.
///
/// They read `input_ids` [B, T] int64 and, where given, `token_type_ids` [B, T] int64, `key_mask`
/// [B, T] bool (what is real) and `labels`: [B, T] int64 of hidden tokens (-100: not one; default:
/// tokens are hidden here), for a classifier [B].
class BertTextConfig : public LanguageModelConfig, public BertConfig {
 public:
  int64_t vocab_size = 30522;
  int64_t num_hidden_layers = 12;
  int64_t type_vocab_size = 2;
  std::optional<double> classifier_dropout;
  bool tie_word_embeddings = true;
  bool is_decoder = false;
  Json pad_token_id = 0, bos_token_id, eos_token_id;

  masking::TextMasking masking;  ///< no part of config.json: the tokenizer knows

  std::string family() const override { return "bert"; }
  std::string architecture() const override { return "BertForMaskedLM"; }
  int64_t num_ids() const override { return vocab_size; }
  int64_t max_length() const override { return max_position_embeddings; }
  int64_t num_layers() const override { return num_hidden_layers; }
  int64_t attention_width() const override { return hidden_size; }
  int64_t key_width() const override { return hidden_size; }
  Objective objective() const override { return Objective::HiddenTokens; }
  std::string mask_token() const override { return "[MASK]"; }
  std::vector<std::string> kept_tokens() const override { return {"[CLS]", "[SEP]", "[PAD]"}; }
  void hide(const masking::TextMasking& tokens, const masking::SpanCorruption&) override {
    masking = tokens;
  }
  double training_flops(int64_t length, int64_t asked) const override;
  Fields fields() override;
  nn::BlockList make_blocks() const override;
  nn::Bundle labelled(const nn::Bundle& batch, const nn::Context& context) const override;
  WeightLayout layout() const override;

  /// Blocks that give each text one of `num_labels` labels: `loss`, `count` and in evaluation
  /// `correct`; in prediction `logits` [B, num_labels].
  nn::BlockList make_classifier(int64_t num_labels) const;
  /// `has_other_head`: the file's classifier is of another task, such as one of tokens.
  WeightLayout classifier_layout(bool has_other_head = false) const;

 protected:
  void check_together() const override;
};

}  // namespace convoy::models
