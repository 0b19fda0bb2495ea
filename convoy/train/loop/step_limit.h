#pragma once

#include "convoy/parallel/strategy/strategy.h"

namespace convoy::train {

/// While it lives, this process's tensors may take what they take now and, of each of its ranks,
/// what device_memory (bytes; 0: no limit) leaves beside its state. In a program whose allocator
/// counts.
class StepLimit {
 public:
  StepLimit(parallel::Strategy& strategy, int64_t device_memory);
  ~StepLimit();
  StepLimit(const StepLimit&) = delete;
  StepLimit& operator=(const StepLimit&) = delete;
};

}  // namespace convoy::train
