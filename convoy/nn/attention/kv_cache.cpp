#include "convoy/nn/attention/kv_cache.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/base/error.h"

namespace convoy::nn {

KvCache::Seen KvCache::append(int64_t block, int64_t site, const at::Tensor& k, const at::Tensor& v,
                              int64_t window) {
  const int64_t now = length_ + k.size(2);
  internal_check(now <= capacity_, "nn", "a cache of {} positions gets {}", capacity_, now);
  if (room(capacity_, window) < capacity_) {
    auto& kept = windows_.try_emplace({block, site}, window).first->second;
    const auto seen = kept.append(k, v, capacity_);
    return {seen.keys, seen.values};
  }
  auto& kept = kept_[{block, site}];
  if (!kept.keys.defined()) {
    const std::vector<int64_t> shape{k.size(0), k.size(1), capacity_, k.size(3)};
    kept = {at::empty(shape, k.options()), at::empty(shape, v.options())};
  }
  kept.keys.narrow(2, length_, k.size(2)).copy_(k);
  kept.values.narrow(2, length_, v.size(2)).copy_(v);
  return {kept.keys.narrow(2, 0, now), kept.values.narrow(2, 0, now)};
}

int64_t KvCache::room(int64_t capacity, int64_t window) {
  return window == 0 ? capacity : WindowCache::room(window, capacity);
}

bool KvCache::go_back_to(int64_t length) {
  const int64_t back = length_ - length;
  if (back > 0 && !recurrences_.empty()) return false;
  const auto can = [&](const auto& kept) { return kept.second.can_go_back(back); };
  if (!std::all_of(windows_.begin(), windows_.end(), can)) return false;
  for (auto& [place, kept] : windows_) kept.go_back(back);
  length_ = length;
  return true;
}

const KvCache::Seen& KvCache::keep(int64_t block, int64_t site, const std::function<Seen()>& make) {
  auto& kept = kept_[{block, site}];
  if (!kept.keys.defined()) {
    const auto made = make();
    kept = {made.keys.contiguous(), made.values.contiguous()};
  }
  return kept;
}

int64_t KvCache::bytes() const {
  size_t bytes = 0;
  for (const auto& [place, kept] : kept_) bytes += kept.keys.nbytes() + kept.values.nbytes();
  auto out = static_cast<int64_t>(bytes);
  for (const auto& [place, kept] : windows_) out += kept.bytes();
  for (const auto& [block, kept] : recurrences_) {
    out += static_cast<int64_t>(kept.tail.nbytes() + kept.state.nbytes());
  }
  return out;
}

}  // namespace convoy::nn
