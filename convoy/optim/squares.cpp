#include "convoy/optim/squares.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>

#include "convoy/base/lanes.h"

namespace convoy::optim {

namespace {

CONVOY_CLONES void add_squares(const float* values, int64_t count, double& total) {
  constexpr int64_t kLanes = 32;
  std::array<double, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double value = values[i + lane];
      lanes[static_cast<size_t>(lane)] += value * value;
    }
  }
  for (; i < count; ++i) lanes[0] += static_cast<double>(values[i]) * values[i];
  for (const double lane : lanes) total += lane;
}

}  // namespace

at::Tensor sum_of_squares_in_pieces(const at::Tensor& values) {
  constexpr int64_t kPiece = 1 << 22;
  auto total = at::zeros({}, values.options().dtype(at::kDouble));
  for (int64_t begin = 0; begin < values.numel(); begin += kPiece) {
    const auto piece = values.narrow(0, begin, std::min(kPiece, values.numel() - begin));
    total += at::linalg_vector_norm(piece, 2, {}, false, at::kDouble).square_();
  }
  return total;
}

at::Tensor sum_of_squares(const at::Tensor& values) {
  if (!values.is_cpu()) return sum_of_squares_in_pieces(values);
  const auto* data = values.const_data_ptr<float>();
  constexpr int64_t kGrain = 1 << 16;
  const double total = at::parallel_reduce(
      0, values.numel(), kGrain, 0.0,
      [&](int64_t begin, int64_t end, double before) {
        add_squares(data + begin, end - begin, before);
        return before;
      },
      [](double a, double b) { return a + b; });
  return at::scalar_tensor(total, values.options().dtype(at::kDouble));
}

}  // namespace convoy::optim
