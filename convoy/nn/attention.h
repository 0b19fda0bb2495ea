#pragma once

#include "convoy/nn/block.h"

// Shapes: B rows, T positions, H heads, K key heads (H is a multiple of it), E width of a head.
namespace convoy::nn {

struct AttentionOptions {
  bool causal = true;      ///< a position sees itself and those before
  at::Tensor key_mask;     ///< [B, T] bool: positions that may be looked at
  double dropout = 0;      ///< rate on the probabilities
  int64_t max_length = 0;  ///< >= T: the model's longest sequence, by which draws are addressed
  int64_t site = 0;        ///< numbers the random draws
  double scale = 0;        ///< of the products; 0 = 1 / sqrt(E)
};

/// Self-attention of q [B, H, T, E] and k, v [B, K, T, E]; key head i serves query heads
/// i x H/K onwards, and is not copied for them. Causal attention with a key mask lets every
/// position see itself at least.
///
/// With context.cache, q, k and v are of the last T of S positions, and the key mask is [B, S].
///
/// Torch's fused kernel; with dropout some query rows at a time, whose probabilities and masks
/// backward makes again: nothing of size H x T x T is kept but what is small anyway.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options, const Context& context);

}  // namespace convoy::nn
