#pragma once

#include "convoy/parallel/strategy/strategy.h"

namespace convoy::train {

/// Limit of this process's tensors during a step: `device_memory` bytes for each of its ranks, and
/// what is no rank's own. Allocations beyond it fail. 0: no limit. Has an effect in programs whose
/// allocator counts.
class StepLimit {
 public:
  StepLimit(parallel::Strategy& strategy, int64_t device_memory);
  ~StepLimit();
  StepLimit(const StepLimit&) = delete;
  StepLimit& operator=(const StepLimit&) = delete;
};

}  // namespace convoy::train
