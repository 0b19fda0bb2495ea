#include "convoy/models/decoder/heads_here.h"

#include <ATen/ATen.h>

#include "convoy/nn/device_kernel.h"

namespace convoy::models {

HeadsHere HeadsHere::of(int64_t queries, int64_t keys, const parallel::TensorPlace& place) {
  const int64_t readers = queries / keys;
  const auto read = parallel::boxes({queries}, {.dim = 0}, place);
  const auto held = parallel::boxes({keys}, {.dim = 0, .readers = readers}, place);
  return {read[0].begin[0], read[0].size[0], held[0].begin[0],
          held.back().local_begin[0] + held.back().size[0], readers};
}

std::vector<int64_t> HeadsHere::keys_read() const {
  std::vector<int64_t> read;
  bool even = queries % keys == 0;
  for (int64_t query = 0; query < queries; ++query) {
    read.push_back((first_query + query) / readers - first_key);
    even = even && read.back() == query / (queries / keys);
  }
  if (even) read.clear();
  return read;
}

at::Tensor HeadsHere::keys_read_on(at::Device device) const {
  const auto read = keys_read();
  if (read.empty()) return {};
  if (device.is_cpu()) return at::tensor(read, at::kLong);
  std::vector<int64_t> key{static_cast<int64_t>(nn::Kept::KeysRead)};
  key.insert(key.end(), read.begin(), read.end());
  return nn::kept_on(device, std::move(key), [&] { return at::tensor(read, at::kLong); });
}

}  // namespace convoy::models
