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

/// Sums the squares on a GPU in one pass. The kernel of many norms adds in the type of its result,
/// where that of one makes a copy in that type first.
at::Tensor sum_of_squares_on_device(const at::Tensor& values) {
  if (values.numel() == 0) return at::zeros({}, values.options().dtype(at::kDouble));
  return at::_foreach_norm({values}, 2, at::kDouble).front().square_();
}

}  // namespace

at::Tensor sum_of_squares(const at::Tensor& values) {
  if (!values.is_cpu()) return sum_of_squares_on_device(values);
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
