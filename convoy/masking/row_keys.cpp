#include "convoy/masking/row_keys.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/comm/device.h"

namespace convoy::masking {

std::vector<uint64_t> row_keys(const at::Tensor& ids, uint64_t site, const nn::Context& context) {
  const int64_t rows = ids.size(0), length = ids.size(1);
  internal_check(context.samples.defined() && context.samples.numel() == rows, "models",
                 "draws for {} rows without as many sample indices", rows);
  const auto samples = comm::download(context.samples).to(at::kLong).contiguous();
  const uint64_t step_key =
      hash_combine(hash_combine(mix64(context.seed), static_cast<uint64_t>(context.step)), site);
  std::vector<uint64_t> keys;
  for (int64_t row = 0; row < rows; ++row) {
    const auto sample = static_cast<uint64_t>(samples.const_data_ptr<int64_t>()[row]);
    keys.push_back(hash_combine(step_key, sample));
    if (context.mode == nn::Mode::Train) continue;
    keys.back() = site;
    for (int64_t t = 0; t < length; ++t) {
      const auto id = ids.const_data_ptr<int64_t>()[row * length + t];
      keys.back() = hash_combine(keys.back(), static_cast<uint64_t>(id));
    }
  }
  return keys;
}

int64_t draw_below(int64_t end, uint64_t key, uint64_t counter) {
  const auto drawn = static_cast<int64_t>(uniform01(key, counter) * static_cast<double>(end));
  return std::min(drawn, end - 1);
}

}  // namespace convoy::masking
