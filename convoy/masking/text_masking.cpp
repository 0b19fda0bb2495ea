#include "convoy/masking/text_masking.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/comm/device.h"
#include "convoy/masking/row_keys.h"

namespace convoy::masking {

namespace {

constexpr uint64_t kTextSite = 0x74657874;      // keeps these draws apart from others
constexpr double kMasked = 0.8, kRandom = 0.1;  // of what is chosen

}  // namespace

MaskedText mask_text(const at::Tensor& ids, const TextMasking& masking, int64_t num_ids,
                     const nn::Context& context) {
  auto masked =
      comm::download(ids).to(at::kLong, /*non_blocking=*/false, /*copy=*/true).contiguous();
  auto targets = at::full_like(masked, -100);
  const auto keys = row_keys(masked, kTextSite, context);
  auto* id = masked.data_ptr<int64_t>();
  auto* target = targets.data_ptr<int64_t>();
  const int64_t length = masked.size(1);
  const auto& kept = masking.kept_ids;
  for (const uint64_t key : keys) {
    for (int64_t t = 0; t < length; ++t) {
      const auto draw = [&](uint64_t which) {
        return uniform01(key, 3 * static_cast<uint64_t>(t) + which);
      };
      if (std::find(kept.begin(), kept.end(), id[t]) != kept.end()) continue;
      if (draw(0) >= masking.probability) continue;
      target[t] = id[t];
      const double how = draw(1);
      if (how < kMasked) {
        id[t] = masking.mask_id;
      } else if (how < kMasked + kRandom) {
        id[t] = std::min(static_cast<int64_t>(draw(2) * static_cast<double>(num_ids)), num_ids - 1);
      }
    }
    id += length;
    target += length;
  }
  return {masked, targets};
}

}  // namespace convoy::masking
