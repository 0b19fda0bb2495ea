#include "convoy/parallel/pool.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace convoy::parallel {

at::Tensor Pool::take(int64_t count) {
  constexpr int64_t kWaste = 2;  // a larger one is somebody else's
  auto best = free_.end();
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    const int64_t size = static_cast<int64_t>(it->storage().nbytes() / it->itemsize());
    if (size < count || size > kWaste * count) continue;
    if (best == free_.end() || it->storage().nbytes() < best->storage().nbytes()) best = it;
  }
  if (best == free_.end()) {
    num_elements_ += count;
    return at::empty({count}, options_);
  }
  auto found = *best;
  free_.erase(best);
  return at::empty({0}, options_).set_(found.storage(), 0, {count}, {1});
}

void Pool::give(at::Tensor buffer) {
  free_.push_back(std::move(buffer));
}

}  // namespace convoy::parallel
