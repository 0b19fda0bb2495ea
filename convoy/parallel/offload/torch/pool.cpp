#include "convoy/parallel/offload/torch/pool.h"

#include <ATen/ATen.h>
#include <malloc.h>

#include <algorithm>
#include <iterator>

namespace convoy::parallel {

namespace {

/// Bytes that the counting allocator gave to a buffer beyond the request. Where none counts, the
/// buffer may not be malloc's: torch's wheel for Arm has a mimalloc within it.
int64_t rounding_of(const at::Tensor& buffer) {
  if (!buffer.is_cpu() || !tensor_memory.is_counting()) return 0;
  return static_cast<int64_t>(::malloc_usable_size(buffer.data_ptr())) -
         static_cast<int64_t>(buffer.nbytes());
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
    pooled_.add_rounding(rounding_of(buffer));
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
  const int64_t rounding = rounding_of(oldest);
  const int64_t asked = oldest.is_cpu() ? static_cast<int64_t>(oldest.nbytes()) : 0;
  oldest.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      at::DataPtr(nullptr, oldest.device()));
  free_.erase(free_.begin());
  pooled_.add(-asked);
  pooled_.add_rounding(-rounding);
}

}  // namespace convoy::parallel
