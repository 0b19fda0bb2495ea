#pragma once

#include "convoy/models/sasrec/sasrec.h"
#include "convoy/nn/layers/wanted_tokens.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::models {

/// Common parts of the layers of SASRec and LiGR: causal attention, and dropout between the
/// products of the feed-forward part.
class CausalLayer : public nn::Block {
 public:
  bool takes_tensor_ranks() const override { return true; }
  bool takes_sequence_parallel() const override { return true; }
  std::string cost_key() const override { return config_.cost_key(); }

 protected:
  static constexpr int64_t kInnerSite = 1, kFirstSite = 2;  // random draws; attention has 0

  CausalLayer(const SasrecConfig& config, const std::string& name, bool asked_only);

  /// Tokens whose states the layer gives.
  nn::WantedTokens wanted_of(const nn::Bundle& in, const nn::TensorRanks& ranks,
                             const nn::Context& context) const;
  /// Attention of the positions of `asking` over those of `seen`, both [B, T, D] or shares of it;
  /// of the wanted tokens.
  at::Tensor attention(const at::Tensor& asking, const at::Tensor& seen,
                       const nn::TensorRanks& ranks, const nn::WantedTokens& wanted,
                       const nn::Context& context) const;
  /// Drops out of `inner` [B, T, columns of `weight` here]; not in evaluation, where it may be of
  /// some tokens.
  at::Tensor drop_inner(const at::Tensor& inner, const nn::ParamPtr& weight,
                        const nn::Context& context) const;

  SasrecConfig config_;

 private:
  bool asked_only_;
  nn::DenseParams query_, key_, value_, mixed_;
};

}  // namespace convoy::models
