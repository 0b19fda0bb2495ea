#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

// Shapes: N tokens, E experts, k experts of a token.
namespace convoy::nn {

/// Experts that each token is sent to.
struct Routing {
  at::Tensor ids;      ///< [N, k] int64, the likeliest first; of equals, the lowest
  at::Tensor weights;  ///< [N, k] fp32, of the experts' results; takes a gradient
  at::Tensor probs;    ///< [N, E] fp32, of all experts; takes a gradient
};

/// Probabilities that become weights.
enum class RoutingWeights { AsTheyAre, OfSumOne };

/// Sends each token to the k likeliest experts by the softmax of `logits` [N, E].
Routing route(const at::Tensor& logits, int64_t k, RoutingWeights weights);

/// Sums over tokens [2, E] fp32: how many were sent to each expert, and the experts' probabilities,
/// through which gradients flow. `real` [N]: 0 for tokens that do not count; undefined: all count.
at::Tensor routing_sums(const Routing& routing, const at::Tensor& real);

/// Load-balancing loss (Fedus et al., 2021, "Switch transformers") of routing_sums() added up over
/// layers: E times the sum, over experts, of the tokens' share times the mean probability. It is k
/// where all experts get the same.
at::Tensor balancing_loss(const at::Tensor& sums, int64_t k);

}  // namespace convoy::nn
