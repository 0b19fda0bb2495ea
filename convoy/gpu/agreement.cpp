#include "convoy/gpu/agreement.h"

#include <ATen/ATen.h>

#include <cmath>

namespace convoy::gpu {

at::Tensor difference(const std::vector<at::Tensor>& found,
                      const std::vector<at::Tensor>& expected) {
  constexpr double kOfHalves = 1.0 / 4096, kTiny = 1e-30;
  std::vector<at::Tensor> all;
  for (size_t i = 0; i < found.size(); ++i) {
    const auto y = expected[i].to(at::kDouble);
    const auto off = (found[i].to(at::kDouble) - y).abs().max() / (y.abs().max() + kTiny);
    all.push_back(off * (c10::elementSize(found[i].scalar_type()) == 2 ? kOfHalves : 1));
  }
  const auto most = at::stack(all).max();  // NaN if one is
  return at::where(most.isfinite(), most, HUGE_VAL);
}

}  // namespace convoy::gpu
