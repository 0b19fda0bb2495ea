#pragma once

#include <cstdint>

namespace convoy::parallel {

/// Memory of a rank by kind, in bytes.
struct MemoryUse {
  int64_t parameters = 0;  ///< compute weights and fp32 masters
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t gathered = 0;     ///< weights and gradients that are whole for a while
  int64_t activations = 0;  ///< peak of tensors beside all others here
  int64_t buffers = 0;      ///< the model's, and those through which offloaded state comes and goes
  int64_t offloaded = 0;    ///< not in the device's memory

  int64_t sum() const {
    return parameters + gradients + optimizer + gathered + activations + buffers;
  }
};

}  // namespace convoy::parallel
