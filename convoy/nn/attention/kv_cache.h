#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "convoy/nn/attention/window_cache.h"

// Shapes: B rows, K key heads, T positions under way, S positions so far, E width of a head.
namespace convoy::nn {

/// Keys and values of the positions that a model has seen, so that later positions need not compute
/// them again.
class KvCache {
 public:
  /// Holds at most `capacity` positions; takes a block's memory at its first append().
  explicit KvCache(int64_t capacity) : capacity_(capacity) {}

  struct Seen {
    at::Tensor keys, values;  ///< [B, K, S, E]
  };
  /// Keeps k and v [B, K, T, E] of attention `site` of block `block` behind what it has. Of
  /// attention with a `window` (0 = none) it keeps the last positions alone, and returns as many
  /// before these T as the window has.
  Seen append(int64_t block, int64_t site, const at::Tensor& k, const at::Tensor& v,
              int64_t window = 0);

  /// Positions that it has room for, of `capacity`, of attention with a window or without.
  static int64_t room(int64_t capacity, int64_t window);

  /// Keeps what `make` gives when this attention comes for the first time, and returns it from then
  /// on: keys and values of positions that do not grow, such as an encoder's.
  const Seen& keep(int64_t block, int64_t site, const std::function<Seen()>& make);

  /// Parts of a recurrence's state after all positions so far, as the layer left them; undefined
  /// at first.
  struct Recurrence {
    at::Tensor tail;   ///< [B, positions, channels]: the last inputs of a convolution
    at::Tensor state;  ///< [B, heads, E, V]
  };
  /// State of block `block`, for its layer to read and replace.
  Recurrence& recurrence(int64_t block) { return recurrences_[block]; }

  /// Records that all blocks have seen `positions` more.
  void advance(int64_t positions) { length_ += positions; }

  /// Forgets all positions from `length` on. Returns false, and does nothing, where the window
  /// before `length` is no longer there, or a recurrence has seen more.
  bool go_back_to(int64_t length);

  int64_t length() const { return length_; }
  int64_t bytes() const;

 private:
  int64_t capacity_, length_ = 0;
  std::map<std::pair<int64_t, int64_t>, Seen> kept_;  // whole, of all positions
  std::map<std::pair<int64_t, int64_t>, WindowCache> windows_;
  std::map<int64_t, Recurrence> recurrences_;
};

}  // namespace convoy::nn
