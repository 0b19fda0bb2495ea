#pragma once

#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::nn {

/// The tokens whose states a layer has to give, all or some. Of the others nobody reads what comes
/// after the attention, and the layer computes none of it.
class WantedTokens {
 public:
  /// All.
  explicit WantedTokens(TensorRanks all) : ranks_(all), all_(std::move(all)) {}
  /// Of states [B, T, ...], or shares of them, the `tokens` [A] int64 of all B x T flattened,
  /// ascending.
  WantedTokens(TensorRanks all, const at::Tensor& tokens, int64_t rows, int64_t length);

  /// As they hold the states of the wanted tokens.
  const TensorRanks& ranks() const { return ranks_; }

  /// The wanted ones of states of all, [B, T, D] or a share: [A, D], or a share.
  at::Tensor of(const at::Tensor& states) const;
  /// The same of [B, T, ...] where tokens are not shared out, as between two products: [A, ...].
  at::Tensor of_whole(const at::Tensor& states) const;
  /// States of the wanted in the places of `all`; zeros in the other places.
  at::Tensor put_back(const at::Tensor& states, const at::Tensor& all) const;
  /// nn::dropout() of states of the wanted: each token has the mask that it has among all.
  at::Tensor dropout(const at::Tensor& x, double rate, const Context& context, int64_t site) const;
  /// x plus that of `added`.
  at::Tensor add_dropped(const at::Tensor& x, const at::Tensor& added, double rate,
                         const Context& context, int64_t site) const;

 private:
  TensorRanks ranks_, all_;
  at::Tensor tokens_;   // that are wanted; undefined: all
  at::Tensor here_;     // those of this rank
  at::Tensor places_;   // of these among the states that it has
  int64_t length_ = 0;  // of a row
};

}  // namespace convoy::nn
