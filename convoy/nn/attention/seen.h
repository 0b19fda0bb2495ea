#pragma once

#include <optional>

#include "convoy/nn/attention/attention.h"

// Keys that queries see: by causality, a window, and the key mask. Shapes: B rows, T queries, which
// are the last of S positions; n of them.
namespace convoy::nn {

/// Whether a window hides some of S keys.
inline bool is_windowed(const AttentionOptions& options, int64_t S) {
  return options.window > 0 && options.window < S;
}

/// Number of keys before its own that a query sees of S, by the window; none: all of them.
inline std::optional<int64_t> keys_before(const AttentionOptions& options, int64_t S) {
  return is_windowed(options, S) ? std::optional(options.window - 1) : std::nullopt;
}

/// Neighbouring keys.
struct KeyStretch {
  int64_t begin = 0, size = 0;
};

/// Stretch of S keys that holds all which n queries see, the first of which is at position `first`.
/// It ends with the last query's own where attention is causal.
KeyStretch keys_seen(const AttentionOptions& options, int64_t first, int64_t n, int64_t S);

/// Fills scores [B, H, n, keys.size] of those queries with minus infinity where a key is hidden.
/// `key_mask` [B, keys.size] or undefined. A position sees itself at least where attention is
/// causal.
void hide_unseen(at::Tensor& scores, const AttentionOptions& options, const at::Tensor& key_mask,
                 int64_t first, const KeyStretch& keys);

/// [B or 1, 1, 1 or T, S] bool: which of S keys the last T positions see; none where all see all,
/// or where causality of T = S positions says it and there is no bias.
std::optional<at::Tensor> visible(const AttentionOptions& options, const at::Tensor& q,
                                  const at::Tensor& k);

}  // namespace convoy::nn
