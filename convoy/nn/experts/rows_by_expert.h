#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

// Shapes: N tokens of width D, E experts, k experts of a token, S = N x k rows.
namespace convoy::nn {

/// Rows one after the other that lie sorted by expert.
struct RowGroup {
  int64_t begin = 0, size = 0;
  at::Tensor ends;  ///< of each expert's rows, from `begin` on: [E] int32 on the device
  std::vector<int64_t> host = {};  ///< these ends on the host; empty: not known there

  /// Ends on the host: a GPU may be waited for.
  std::vector<int64_t> ends_on_host() const;
};
using RowGroups = std::vector<RowGroup>;

/// Order in which rows of tokens are multiplied with their experts' weights: by expert, and by
/// token within an expert. No expert has a capacity, so no row is dropped.
class RowsByExpert {
 public:
  /// Takes the experts `ids` [N, k] of each token.
  RowsByExpert(const at::Tensor& ids, int64_t num_experts);

  /// Rows [S, D] of tokens' `states` [N, D].
  at::Tensor rows(const at::Tensor& states) const;
  /// Expert of each row, [S] int64.
  const at::Tensor& experts() const { return experts_; }
  /// Values [S] of the pairs of a token and an expert, `pairs` [N, k].
  at::Tensor values(const at::Tensor& pairs) const;
  /// Pairs [N, k] of `values` [S].
  at::Tensor pairs(const at::Tensor& values) const;
  /// Sums [N, D] of each token's `rows` [S, D], in the order of its ids: each times its weight of
  /// `weights` [N, k] fp32, where defined. Sums are fp32, the result has the rows' dtype.
  at::Tensor sums(const at::Tensor& rows, const at::Tensor& weights = {}) const;

  /// End of each expert's rows, [E] int32 on the device.
  const at::Tensor& ends() const { return ends_; }
  /// All rows.
  RowGroup group() const { return {0, order_.numel(), ends_}; }

 private:
  at::Tensor order_;  // [S] int64: pair of each row
  at::Tensor experts_;
  at::Tensor tokens_;  // [S] int64: token of each row
  at::Tensor places_;  // [N, k] int64: row of each pair
  at::Tensor ends_;
};

}  // namespace convoy::nn
