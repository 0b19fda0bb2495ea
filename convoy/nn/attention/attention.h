#pragma once

#include <functional>

#include "convoy/nn/attention/kv_cache.h"
#include "convoy/nn/block.h"
#include "convoy/nn/context_parallel/context_ranks.h"

// Shapes: B rows, T positions, S positions that are looked at, H heads, K key heads (H is a
// multiple of it), E width of a head.
namespace convoy::nn {

struct AttentionOptions {
  bool causal = true;          ///< a position sees itself and those before
  at::Tensor key_mask;         ///< [B, S] bool: positions that may be looked at
  at::Tensor documents;        ///< [B, T] of nn/documents.h, T = S: a position sees its own alone
  at::Tensor bias;             ///< [1, H, T, S], added to the scaled products; may take a gradient
  at::Tensor sinks;            ///< [H] scores of a key without a value, which every position sees;
                               ///< may take a gradient
  double dropout = 0;          ///< rate on the probabilities
  int64_t max_length = 0;      ///< >= T, S: the longest sequence, by which draws are addressed
  int64_t site = 0;            ///< numbers the random draws
  double scale = 0;            ///< of the products; 0 = 1 / sqrt(E)
  int64_t window = 0;          ///< last keys that a position sees, its own included; 0 = all
  double cap = 0;              ///< scores become cap x tanh(score / cap); 0 = they stay
  int64_t first_head = 0;      ///< of q among the layer's, by which draws are addressed
  int64_t first_position = 0;  ///< of q and k in their row, by which draws are addressed
  bool kept = false;           ///< k and v are of all positions so far: context.cache has them
  bool any_length = false;     ///< lengths vary, so that kernels that plan for each are left out
  ContextRanks ranks = {};     ///< may share out positions: q, k and v have those that are here
  std::string name = {};       ///< of the layer, for messages
};

/// Factor of the products with q [..., E].
double scale_of(const AttentionOptions& options, const at::Tensor& q);

/// Self-attention of q [B, H, T, E] and k, v [B, K, T, E]; key head i serves query heads
/// i x H/K onwards, and is not copied for them. Causal attention with a key mask lets every
/// position see itself at least.
///
/// With context.cache and causality, q, k and v are of the last T of S positions, which key mask
/// and bias are of.
///
/// Where ranks share out positions, keys and values go round them (ring_attention). Else torch's
/// fused kernel; in training short rows by short_attention(), and with dropout, a bias, sinks, a
/// cap or a window some query rows at a time against the keys that one of them sees, whose
/// probabilities and masks backward makes again: nothing of size H x T x T is kept but what is
/// small anyway. Ranks that share out positions take no window, sinks or cap.
///
/// Documents of a row are attended to one at a time, each by one of these kernels: tokens of the
/// others change no bit of its result or gradients. On a GPU in 16 bits flash_attention() takes all
/// documents of a micro-batch, or a window, at once where it can, and promises no equal bits.
/// Padding gives zeros.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options, const Context& context);

/// Attention of q [B, H, T, E] to S positions of another kind, such as an encoder's: `make` gives
/// keys and values [B, K, S, E]; with context.cache it is called only once. options.causal must be
/// false.
at::Tensor cross_attention(const at::Tensor& q, const std::function<KvCache::Seen()>& make,
                           const AttentionOptions& options, const Context& context);

}  // namespace convoy::nn
