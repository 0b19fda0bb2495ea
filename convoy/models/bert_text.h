#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/models/bert.h"
#include "convoy/models/causal.h"

namespace convoy::models {

/// What of a text is hidden in training, as Hugging Face's DataCollatorForLanguageModeling does it:
/// of the chosen positions 80 % become `mask_id`, 10 % a random id, 10 % stay.
struct TextMasking {
  double probability = 0.15;
  int64_t mask_id = 0;
  std::vector<int64_t> kept_ids;  ///< never chosen: tokens that the tokenizer puts around texts
};

/// Hugging Face's BertConfig: its keys by its names, with its defaults. Its blocks are trained to
/// name hidden tokens; make_classifier() gives those that sort texts.
///
/// They read `input_ids` [B, T] int64 and, where given, `token_type_ids` [B, T] int64, `key_mask`
/// [B, T] bool (what is real) and `labels`: [B, T] int64 of hidden tokens (-100: not one; default:
/// tokens are hidden here), for a classifier [B].
class BertTextConfig : public CausalConfig, public BertConfig {
 public:
  int64_t vocab_size = 30522;
  int64_t num_hidden_layers = 12;
  int64_t type_vocab_size = 2;
  std::optional<double> classifier_dropout;
  bool tie_word_embeddings = true;
  bool is_decoder = false;
  Json pad_token_id = 0, bos_token_id, eos_token_id;

  TextMasking masking;  ///< no part of config.json: the tokenizer knows

  std::string family() const override { return "bert"; }
  std::string architecture() const override { return "BertForMaskedLM"; }
  int64_t num_ids() const override { return vocab_size; }
  int64_t max_length() const override { return max_position_embeddings; }
  int64_t num_layers() const override { return num_hidden_layers; }
  int64_t attention_width() const override { return hidden_size; }
  int64_t key_width() const override { return hidden_size; }
  Objective objective() const override { return Objective::HiddenTokens; }
  Fields fields() override;
  nn::BlockList make_blocks() const override;
  WeightLayout layout() const override;

  /// Blocks that give each text one of `num_labels` labels: `loss`, `count` and in evaluation
  /// `correct`; in prediction `logits` [B, num_labels].
  nn::BlockList make_classifier(int64_t num_labels) const;
  WeightLayout classifier_layout() const;

 protected:
  void check_together() const override;
};

/// Ids with some hidden, and what they were: `targets` [B, T], -100 where nothing is asked; both on
/// the host. A function of seed, step, sample and position in training, of the text in evaluation.
struct MaskedText {
  at::Tensor ids, targets;
};
MaskedText mask_text(const at::Tensor& ids, const TextMasking& masking, int64_t num_ids,
                     const nn::Context& context);

}  // namespace convoy::models
