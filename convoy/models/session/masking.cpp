#include "convoy/models/session/masking.h"

#include <ATen/ATen.h>

#include "convoy/models/row_keys.h"

namespace convoy::models {

namespace {

constexpr uint64_t kMaskSite = 0x6d61736b;       // keeps these draws apart from those of dropout
constexpr uint64_t kChoice = uint64_t{1} << 40;  // counter of a row's choice, beyond all positions

}  // namespace

at::Tensor session_lengths(const at::Tensor& ids) {
  return ((ids != 0) * at::arange(1, ids.size(1) + 1, ids.options())).amax(1);
}

at::Tensor last_item_mask(const at::Tensor& ids) {
  auto lengths = session_lengths(ids);
  auto last = at::arange(ids.size(1), ids.options()) == (lengths - 1).unsqueeze(1);
  return last.logical_and_((lengths > 1).unsqueeze(1));
}

at::Tensor training_mask(const at::Tensor& ids, double probability, const nn::Context& context) {
  auto host = ids.to(at::kCPU).contiguous();
  auto mask = at::zeros(host.sizes(), at::kBool);
  const auto* item = host.data_ptr<int64_t>();
  bool* out = mask.data_ptr<bool>();
  const int64_t length = host.size(1);
  std::vector<int64_t> places;
  for (const uint64_t key : row_keys(host, kMaskSite, context)) {
    places.clear();
    size_t hidden = 0;
    for (int64_t t = 0; t < length; ++t) {
      if (item[t] == 0) continue;
      places.push_back(t);
      out[t] = uniform01(key, static_cast<uint64_t>(t)) < probability;
      hidden += out[t];
    }
    if (places.size() < 2) {
      for (int64_t t : places) out[t] = false;
    } else if (hidden == 0 || hidden == places.size()) {
      const double draw = uniform01(key, kChoice);
      const auto chosen = static_cast<size_t>(draw * static_cast<double>(places.size()));
      auto& one = out[places[std::min(chosen, places.size() - 1)]];
      one = !one;
    }
    item += length;
    out += length;
  }
  return mask.to(ids.device());
}

}  // namespace convoy::models
