#pragma once

#include <cstdint>

namespace convoy::optim {

/// The factor by which fp16 training multiplies the loss so that small gradients do not vanish:
/// halved when a gradient overflows (that step is skipped), doubled after kGrowthInterval steps
/// without. Starts and moves as torch's GradScaler. Always a power of two: exact.
struct LossScale {
  static constexpr int64_t kGrowthInterval = 2000;

  double value = 65536;
  int64_t good_steps = 0;  ///< since the last change

  void update(bool overflowed) {
    if (overflowed || ++good_steps == kGrowthInterval) {
      value *= overflowed ? 0.5 : 2;
      good_steps = 0;
    }
  }
};

}  // namespace convoy::optim
