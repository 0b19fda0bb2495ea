#include "convoy/parallel/offload/torch/pool.h"

#include <ATen/ATen.h>
#include <malloc.h>

#include <algorithm>
#include <iterator>

namespace convoy::parallel {

namespace {

/// Bytes of a buffer as the allocator counts them.
int64_t host_bytes(const at::Tensor& buffer) {
  return buffer.is_cpu() ? static_cast<int64_t>(::malloc_usable_size(buffer.data_ptr())) : 0;
}

}  // namespace

at::Tensor Pool::take(int64_t count) {
  const int64_t most = most_;
  taken_ += count;
  most_ = std::max(most_, taken_);
  const auto found = std::find_if(free_.rbegin(), free_.rend(), [&](const at::Tensor& buffer) {
    return buffer.numel() == count;
  });
  if (found != free_.rend()) {
    const auto storage = found->storage();
    free_.erase(std::next(found).base());
    return at::empty({0}, options_).set_(storage, 0, {count}, {1});
  }
  while (num_elements_ + count > most_) let_go();
  num_elements_ += count;
  // Told before it is there, with what the allocator may add to it: it is no peak of what tensors
  // take beside pools.
  const auto width = static_cast<int64_t>(options_.dtype().itemsize());
  const int64_t expected = options_.device().is_cpu() ? count * width : 0;
  const int64_t most_added = expected / 4;
  pooled_.add(expected + most_added);
  try {
    auto buffer = at::empty({count}, options_);
    pooled_.add(-most_added);
    if (expected > 0) pooled_.add_rounding(host_bytes(buffer) - expected);
    return buffer;
  } catch (...) {  // there is no such memory: nothing was taken
    pooled_.add(-expected - most_added);
    num_elements_ -= count;
    taken_ -= count;
    most_ = most;
    throw;
  }
}

void Pool::give(at::Tensor buffer) {
  taken_ -= buffer.numel();
  free_.push_back(std::move(buffer));
}

/// Frees the buffer that was given back first, though views of it may still be bound.
void Pool::let_go() {
  const auto& oldest = free_.front();
  num_elements_ -= oldest.numel();
  const int64_t bytes = host_bytes(oldest);
  const int64_t asked = oldest.is_cpu() ? static_cast<int64_t>(oldest.nbytes()) : 0;
  oldest.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      at::DataPtr(nullptr, oldest.device()));
  free_.erase(free_.begin());
  pooled_.add(-asked);
  pooled_.add_rounding(asked - bytes);
}

}  // namespace convoy::parallel
