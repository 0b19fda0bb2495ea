#include "convoy/nn/attention/window_cache.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace convoy::nn {

namespace {

constexpr int64_t kLeastMore = 128;

/// Spare positions of a cache beside the window's.
int64_t more_of(int64_t window) {
  return std::max(kLeastMore, window / 4);
}

/// Returns the last `count` of `held` positions.
at::Tensor last(const at::Tensor& kept, int64_t held, int64_t count) {
  return kept.narrow(2, held - count, count);
}

}  // namespace

int64_t WindowCache::room(int64_t window, int64_t capacity) {
  return std::min(capacity, window + more_of(window));
}

/// Moves the last `keep` positions to the front.
void WindowCache::make_room(int64_t keep) {
  for (auto* kept : {&keys_, &values_}) {
    kept->narrow(2, 0, keep).copy_(last(*kept, held_, keep).clone());
  }
  held_ = keep;
}

WindowCache::Seen WindowCache::append(const at::Tensor& k, const at::Tensor& v, int64_t capacity) {
  const int64_t T = k.size(2), room = WindowCache::room(window_, capacity);
  if (!keys_.defined()) {
    const std::vector<int64_t> shape{k.size(0), k.size(1), room, k.size(3)};
    keys_ = at::empty(shape, k.options());
    values_ = at::empty(shape, v.options());
  }
  seen_ += T;
  const int64_t before = std::min(held_, window_);
  // Going back by a few positions stays possible.
  const int64_t keep = std::min(held_, window_ + more_of(window_) / 2);
  if (held_ + T > room && keep + T <= room) make_room(keep);
  if (held_ + T <= room) {
    keys_.narrow(2, held_, T).copy_(k);
    values_.narrow(2, held_, T).copy_(v);
    held_ += T;
    return {last(keys_, held_, before + T), last(values_, held_, before + T)};
  }
  // Copies keys and values that are more than the cache has room for.
  const auto joined = [&](const at::Tensor& kept, const at::Tensor& fresh) {
    return before == 0 ? fresh.contiguous() : at::cat({last(kept, held_, before), fresh}, 2);
  };
  const Seen out{joined(keys_, k), joined(values_, v)};
  held_ = std::min(room, before + T);
  keys_.narrow(2, 0, held_).copy_(last(out.keys, before + T, held_));
  values_.narrow(2, 0, held_).copy_(last(out.values, before + T, held_));
  return out;
}

bool WindowCache::can_go_back(int64_t back) const {
  return held_ - back >= std::min(window_, seen_ - back);
}

void WindowCache::go_back(int64_t back) {
  held_ -= back;
  seen_ -= back;
}

int64_t WindowCache::bytes() const {
  return keys_.defined() ? static_cast<int64_t>(keys_.nbytes() + values_.nbytes()) : 0;
}

}  // namespace convoy::nn
