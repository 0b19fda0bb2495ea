#pragma once

#include <functional>

#include "convoy/nn/block.h"
#include "convoy/nn/losses/preference.h"

namespace convoy::models {

/// nn::routing_sums() [2, E] of the layers so far, in a bundle of a model with experts.
inline constexpr const char* kRoutingSums = "routing_sums";

/// End of a causal language model: a normalisation of the states and a matrix of the vocabulary.
struct CausalHeadOptions {
  std::string norm;           ///< the norm's name; "" = the states are normalised already
  bool norm_has_bias = true;  ///< layer normalisation; else RMSNorm
  double epsilon = 1e-5;
  bool one_more = false;  ///< RMSNorm multiplies by 1 + weight
  nn::ParamPtr table;     ///< [V, D] of the embedding
  bool tied = true;       ///< whether it is the head's, too; else `lm_head.weight`
  double initializer_range = 0.02;
  double logits_divisor = 1;
  double logits_cap = 0;          ///< logits become cap x tanh(logits / cap); 0 = they stay
  double balancing = 0;           ///< factor of the loss that balances experts (kRoutingSums)
  int64_t experts_per_token = 0;  ///< 0 = the model has no experts
  /// Targets of a batch's positions, by the batch alone: a GPU is not waited for. Empty: they are
  /// read back.
  std::function<at::Tensor(const nn::Bundle& batch, const nn::Context& context)> targets;
};

/// causal_targets() of a model of `num_ids` ids.
std::function<at::Tensor(const nn::Bundle& batch, const nn::Context& context)> causal_targets_of(
    int64_t num_ids);

/// Reads bundle["hidden"] [B, T, D] and the targets of put_targets(); gives the outputs that
/// LanguageModelConfig promises.
nn::BlockPtr make_causal_head(const CausalHeadOptions& options);

/// Spreads `share` of each target over all ids in training: torch's cross-entropy with
/// `label_smoothing`. Throws UsageError where the last block of `blocks` is no causal head, and
/// where its scores are capped.
void smooth_labels(const nn::BlockList& blocks, double share);

/// Makes the causal head of `blocks` learn preferences: from now on each row of a batch holds two
/// documents (nn/documents.h), the answer that was chosen and the one that was rejected, and the
/// batch may have the reference's nn::kReferenceLogProbs, else zeros. It then counts pairs, and
/// evaluation gives `log_probs` [B, 2] double in place of `correct`. Throws UsageError where the
/// last block is no causal head.
void learn_preferences(const nn::BlockList& blocks, const nn::PreferenceOptions& options);

}  // namespace convoy::models
