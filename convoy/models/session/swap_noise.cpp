#include "convoy/models/session/swap_noise.h"

#include <ATen/ATen.h>

#include "convoy/comm/device.h"
#include "convoy/masking/row_keys.h"

namespace convoy::models {

at::Tensor swap_noise(const at::Tensor& column, const at::Tensor& real, const at::Tensor& values,
                      double rate, const std::string& name, const nn::Context& context) {
  constexpr uint64_t kSwapSite = 0x73776170;  // keeps these draws apart from others
  const int64_t rows = column.size(0), length = column.size(1);
  auto swapped = at::zeros({rows, length}, at::kBool),
       places = at::zeros({rows, length}, at::kLong);
  auto* is_swapped = swapped.data_ptr<bool>();
  auto* place = places.data_ptr<int64_t>();
  for (const uint64_t row : masking::row_keys(column, kSwapSite, context)) {
    const uint64_t key = hash_combine(row, hash_text(name));
    for (int64_t t = 0; t < length; ++t, ++is_swapped, ++place) {
      const auto counter = 2 * static_cast<uint64_t>(t);
      *is_swapped = uniform01(key, counter) < rate;
      if (*is_swapped) *place = masking::draw_below(values.numel(), key, counter + 1);
    }
  }
  const auto others = values.index_select(0, places.view({-1})).view({rows, length});
  return at::where(comm::upload(swapped, column.device()).logical_and_(real),
                   comm::upload(others, column.device()), column);
}

}  // namespace convoy::models
