#include "convoy/nn/attention/relative_attention.h"

#include <ATen/ATen.h>

#include <cmath>

#include "convoy/nn/dropout.h"

namespace convoy::nn {

namespace {

/// [B, H, T, T], of [B, H, T, 2 T] by distance: row i begins T - i further right.
at::Tensor by_key(const at::Tensor& by_distance) {
  const int64_t B = by_distance.size(0), H = by_distance.size(1), T = by_distance.size(2);
  return by_distance.reshape({B, H, 2 * T, T})
      .narrow(2, 1, 2 * T - 1)
      .reshape({B, H, T, 2 * T - 1})
      .narrow(3, 0, T);
}

}  // namespace

at::Tensor distance_sinusoids(int64_t length, int64_t width, at::Device device) {
  const auto fp32 = at::device(device).dtype(at::kFloat);
  const auto distances = at::arange(length, -length, -1, fp32);
  const auto steps = at::arange(0, width, 2, fp32) / static_cast<double>(width);
  const auto angles = at::outer(distances, at::pow(10000.0, steps).reciprocal());
  return at::cat({angles.sin(), angles.cos()}, 1);
}

at::Tensor relative_attention(const RelativeQueries& queries, const at::Tensor& k,
                              const at::Tensor& v, const at::Tensor& r,
                              const RelativeOptions& options, const Context& context) {
  constexpr double kNever = -1e30;  // finite, so that seeing nothing is no NaN
  const int64_t H = k.size(1), longest = options.max_length;
  auto scores = at::matmul(queries.words, k.transpose(2, 3)) +
                by_key(at::matmul(queries.distances, r.transpose(1, 2)));
  scores = scores.to(at::kFloat) / std::sqrt(static_cast<double>(k.size(3)));
  const auto& seen = options.seen;
  if (seen.defined()) scores = scores.masked_fill(seen.logical_not(), kNever);
  auto weights = at::softmax(scores, -1);
  if (seen.defined()) weights = weights.masked_fill(seen.any(-1, true).logical_not(), 0);
  weights = dropout(weights, options.dropout, context, options.site, {H, longest, longest});
  return at::matmul(weights.to(v.scalar_type()), v);
}

}  // namespace convoy::nn
