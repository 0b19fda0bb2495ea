#pragma once

#include <ATen/core/Tensor.h>

// Shapes: n heads of keys of all rows, r heads of values for each, N = n x r, c chunks of C
// positions, E and V widths of a head of keys and of values.
namespace convoy::nn {

/// Positions that are computed with each other's products; between chunks only a state travels.
inline constexpr int64_t kDeltaChunk = 64;

/// Tensors of a stretch of positions, fp32 and contiguous: what the gated delta rule reads, or the
/// gradients of that.
struct DeltaStretch {
  at::Tensor q, k;         ///< [n, c, C, E], normalised; q is scaled
  at::Tensor v;            ///< [N, c, C, V]
  at::Tensor decay, beta;  ///< [N, c, C]; decay is a logarithm, at most 0
};

/// The gated delta rule (Yang et al., 2024) over a stretch of positions, without autograd. For each
/// position t the state S [E, V] becomes e^decay S + k beta (v - k e^decay S), and gives q S. A
/// chunk solves a triangular system for all of its positions at once.
class DeltaChunks {
 public:
  explicit DeltaChunks(const DeltaStretch& in);

  /// Takes `state` [N, E, V] from before the stretch to behind it.
  void scan(at::Tensor& state);
  /// Returns what positions read, [N, c, C, V], after scan().
  at::Tensor heard() const;
  /// Returns the gradients of the stretch after scan(), and takes `state` from the gradient of
  /// the state behind it to that of the state before.
  DeltaStretch backward(const at::Tensor& grad, at::Tensor& state) const;

 private:
  /// Tensors [N, ...] or [n, ...] by head of keys, as [n, r, ...] or [n, 1, ...].
  at::Tensor by_key(const at::Tensor& x) const { return x.unflatten(0, {n_, r_}); }
  at::Tensor of_values(const at::Tensor& keys, const at::Tensor& factors) const;
  at::Tensor over_values(const at::Tensor& x) const { return by_key(x).sum(1); }

  DeltaStretch in_;
  int64_t n_, r_;
  at::Tensor grown_, left_;    // e^(decay from the chunk's begin), to its end: [N, c, C]
  at::Tensor pairs_;           // decay from position to position, [N, c, C, C]
  at::Tensor keys_, queries_;  // products with keys, [n, c, C, C]
  at::Tensor mix_;             // queries_ times pairs_, [N, c, C, C]
  at::Tensor inverse_;         // of the triangular system, [N, c, C, C]
  at::Tensor writes_, reads_;  // U [N, c, C, V] and W [N, c, C, E] of the system
  at::Tensor decayed_queries_, decayed_keys_;  // [N, c, C, E]
  at::Tensor states_, news_;  // before each chunk, [N, c, E, V]; written, [N, c, C, V]
};

}  // namespace convoy::nn
