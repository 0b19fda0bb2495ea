#include "convoy/parallel/pool.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>

namespace convoy::parallel {

at::Tensor Pool::take(int64_t count) {
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
  return at::empty({count}, options_);
}

void Pool::give(at::Tensor buffer) {
  taken_ -= buffer.numel();
  free_.push_back(std::move(buffer));
}

/// Frees the buffer that was given back first, though views of it may still be bound.
void Pool::let_go() {
  const auto& oldest = free_.front();
  num_elements_ -= oldest.numel();
  oldest.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      at::DataPtr(nullptr, oldest.device()));
  free_.erase(free_.begin());
}

}  // namespace convoy::parallel
