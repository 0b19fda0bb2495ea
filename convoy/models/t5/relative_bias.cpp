#include "convoy/models/t5/relative_bias.h"

#include <ATen/ATen.h>

#include <cmath>

#include "convoy/nn/layers/layers.h"

// Shapes: H heads, T positions that look at S, N = T + S - 1 distances between them.
namespace convoy::models {

at::Tensor relative_buckets(const at::Tensor& distances, const RelativeBuckets& buckets) {
  auto count = buckets.count;
  auto out = at::zeros_like(distances), far = distances;
  if (buckets.both_sides) {
    count /= 2;
    out = (distances > 0) * count;
    far = distances.abs();
  } else {
    far = -distances.clamp_max(0);
  }
  const auto own = count / 2;
  const auto growth =
      std::log(static_cast<double>(buckets.max_distance) / static_cast<double>(own));
  auto shared = at::log(far.to(at::kFloat) / own) / growth * (count - own);
  // Near positions have a bucket of their own each; clamping hides their logarithm, which may be
  // that of 0.
  shared = (shared.clamp_min(0).to(at::kLong) + own).clamp_max(count - 1);
  return out + at::where(far < own, far, shared);
}

at::Tensor relative_bias(const nn::ParamPtr& table, int64_t T, int64_t seen,
                         const RelativeBuckets& buckets) {
  const int64_t S = seen + T;
  const auto device = table->value().device();
  // The last position looks at distances from 1 - S on, each before it one further.
  const auto distances = at::arange(1 - S, T, at::TensorOptions(at::kLong).device(device));
  const auto values = nn::embedding(relative_buckets(distances, buckets), table, false);  // [N, H]
  return values.t().unfold(1, S, 1).flip(1).contiguous().unsqueeze(0);
}

}  // namespace convoy::models
