#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace convoy::optim {

/// Factor by which fp16 training multiplies the loss so that small gradients do not vanish:
/// halved when a gradient overflows (that step is skipped), doubled after kGrowthInterval steps
/// without. Starts and moves as torch's GradScaler, and like there acts on a mean. Always a power
/// of two: exact.
struct LossScale {
  static constexpr int64_t kGrowthInterval = 2000;

  double value = 65536;
  int64_t good_steps = 0;         ///< since the last change
  double targets_per_sample = 0;  ///< of the last step; 0: not known yet

  /// Returns the factor for a loss that is a sum over the targets of `samples` samples: divided by
  /// the power of two at or above their number, as far as that is known before the step.
  double of_sum(int64_t samples) const {
    const double targets = targets_per_sample * static_cast<double>(samples);
    return value / std::exp2(std::ceil(std::log2(std::max(1.0, targets))));
  }

  void update(bool overflowed) {
    if (overflowed || ++good_steps == kGrowthInterval) {
      value *= overflowed ? 0.5 : 2;
      good_steps = 0;
    }
  }
};

}  // namespace convoy::optim
