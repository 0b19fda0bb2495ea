#pragma once

#include "convoy/nn/attention/attention.h"

namespace convoy::nn {

/// Self-attention of rows whose positions context.ranks share out (Liu et al., "Ring attention",
/// 2023): q [B, H, t, E] and k, v [B, K, t, E] are of this rank's positions, options.key_mask
/// [B, T] of all. Keys and values go round the ranks, while each attends to those that it has; what
/// comes of them is joined by the logarithms of their sums of exponentials. In backward they go
/// round again, with their gradients. On a processor by torch's fused kernel where nothing is
/// dropped or hidden, else some query rows at a time. Draws are addressed as in attention().
at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const AttentionOptions& options, double scale, const Context& context);

}  // namespace convoy::nn
