#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

// Shapes: B rows, K key heads, T positions under way, E width of a head.
namespace convoy::nn {

/// Keys and values of the last positions that attention with a window has seen: as many as the
/// window, and some more, so that they are seldom moved.
class WindowCache {
 public:
  explicit WindowCache(int64_t window) : window_(window) {}

  /// Positions that such a cache has room for; `capacity` of them are all that there will be.
  static int64_t room(int64_t window, int64_t capacity);

  struct Seen {
    at::Tensor keys, values;  ///< [B, K, at most window + T, E]
  };
  /// Appends k and v [B, K, T, E]. Returns the keys and values that these positions see: the
  /// window before them, then their own.
  Seen append(const at::Tensor& k, const at::Tensor& v, int64_t capacity);

  /// Whether the window of the position `back` positions before the end is still there.
  bool can_go_back(int64_t back) const;
  /// Forgets the last `back` positions.
  void go_back(int64_t back);

  int64_t bytes() const;

 private:
  void make_room(int64_t keep);

  int64_t window_;
  int64_t seen_ = 0, held_ = 0;  // positions so far; the last of them that are here
  at::Tensor keys_, values_;     // [B, K, room, E]
};

}  // namespace convoy::nn
