#pragma once

#include "convoy/nn/layers/add_norm.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::nn {

/// Tokens whose states a layer has to give, all or some. Nobody reads the states of other
/// tokens behind the attention, and the layer computes none of them.
class WantedTokens {
 public:
  /// Wants all tokens.
  explicit WantedTokens(TensorRanks all) : ranks_(all), all_(std::move(all)) {}
  /// Wants the `tokens` [A] int64, ascending indices into all B x T flattened, of states [B, T,
  /// ...] or shares of them.
  WantedTokens(TensorRanks all, const at::Tensor& tokens, int64_t rows, int64_t length);

  /// Ranks that hold the states of the wanted tokens.
  const TensorRanks& ranks() const { return ranks_; }

  /// States of the wanted tokens, [A, D] or a share, out of those of all, [B, T, D] or a share.
  at::Tensor of(const at::Tensor& states) const;
  /// States of the wanted tokens, [A, ...], out of states [B, T, ...] that the ranks do not split,
  /// as between two products.
  at::Tensor of_whole(const at::Tensor& states) const;
  /// States of the wanted tokens in the places of `all`; zeros in the other places.
  at::Tensor put_back(const at::Tensor& states, const at::Tensor& all) const;
  /// nn::dropout() of the wanted tokens' states: each token has its mask among all tokens.
  at::Tensor dropout(const at::Tensor& x, double rate, const Context& context, int64_t site) const;
  /// x plus dropout() of `added`.
  at::Tensor add_dropped(const at::Tensor& x, const at::Tensor& added, double rate,
                         const Context& context, int64_t site) const;
  /// add_dropped(), and the normalised rows of the sum.
  NormedStates add_norm(const at::Tensor& x, const at::Tensor& added, double rate,
                        const Context& context, int64_t site, const RowNorm& norm) const;

 private:
  TensorRanks ranks_, all_;
  at::Tensor tokens_;   // that are wanted; undefined: all
  at::Tensor here_;     // those of this rank
  at::Tensor places_;   // of these among the states that it has
  int64_t length_ = 0;  // of a row
};

}  // namespace convoy::nn
