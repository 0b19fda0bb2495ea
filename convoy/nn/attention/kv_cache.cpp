#include "convoy/nn/attention/kv_cache.h"

#include <ATen/ATen.h>

#include "convoy/base/error.h"

namespace convoy::nn {

KvCache::Seen KvCache::append(int64_t block, int64_t site, const at::Tensor& k,
                              const at::Tensor& v) {
  const int64_t now = length_ + k.size(2);
  internal_check(now <= capacity_, "nn", "a cache of {} positions gets {}", capacity_, now);
  auto& kept = kept_[{block, site}];
  if (!kept.keys.defined()) {
    const std::vector<int64_t> shape{k.size(0), k.size(1), capacity_, k.size(3)};
    kept = {at::empty(shape, k.options()), at::empty(shape, v.options())};
  }
  kept.keys.narrow(2, length_, k.size(2)).copy_(k);
  kept.values.narrow(2, length_, v.size(2)).copy_(v);
  return {kept.keys.narrow(2, 0, now), kept.values.narrow(2, 0, now)};
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
  return static_cast<int64_t>(bytes);
}

}  // namespace convoy::nn
