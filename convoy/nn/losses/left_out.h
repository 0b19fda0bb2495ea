#pragma once

#include <ATen/core/Tensor.h>

#include <limits>

// Shapes: N rows, C scored ids.
namespace convoy::nn {

/// Rank of a target that does not compete: beyond every cut-off.
inline constexpr int64_t kNoRank = std::numeric_limits<int64_t>::max();

/// Ids that do not compete in a ranking. Tensors may be undefined: none.
struct LeftOut {
  at::Tensor ids;      ///< [K] int64, of no row
  at::Tensor of_rows;  ///< [N, E] int64, of each row; 0 = none

  /// Returns the left-out ids of some rows.
  LeftOut rows(int64_t begin, int64_t count) const;
  /// Sets scores [N, C] of left-out ids to the least value; column c has the id first + c * stride.
  void mask(at::Tensor& scores, int64_t first, int64_t stride = 1) const;
  /// Returns `ranks` [N] with kNoRank for left-out targets.
  at::Tensor without_rank(const at::Tensor& ranks, const at::Tensor& targets) const;
};

}  // namespace convoy::nn
