#include "convoy/models/session/negatives.h"

#include <ATen/ATen.h>

#include "convoy/comm/device.h"
#include "convoy/masking/row_keys.h"

namespace convoy::models {

namespace {

constexpr uint64_t kSite = 0x67626365;  // keeps these draws apart from others

}  // namespace

at::Tensor draw_negatives(const at::Tensor& ids, const at::Tensor& positions,
                          const at::Tensor& targets, int64_t first_id, int64_t num_ids,
                          int64_t count, const nn::Context& context) {
  // The host does not know the positions on a GPU, so negatives are drawn for all.
  const bool known = positions.is_cpu();
  const auto places = known ? positions.contiguous() : at::arange(ids.numel(), at::kLong);
  const auto keys = masking::row_keys(ids, kSite, context);
  const int64_t length = ids.size(1), num_others = num_ids - first_id - 1;
  auto drawn = at::empty({places.numel(), count}, at::kLong);
  auto* out = drawn.data_ptr<int64_t>();
  for (int64_t i = 0; i < places.numel(); ++i) {
    const int64_t place = places.const_data_ptr<int64_t>()[i];
    const uint64_t key = keys[static_cast<size_t>(place / length)];
    const auto first = static_cast<uint64_t>(place % length * count);
    for (int64_t j = 0; j < count; ++j) {
      *out++ = first_id + masking::draw_below(num_others, key, first + static_cast<uint64_t>(j));
    }
  }
  if (!known) drawn = comm::upload(drawn, targets.device()).index_select(0, positions);
  return drawn + (drawn >= targets.unsqueeze(1)).to(at::kLong);
}

}  // namespace convoy::models
