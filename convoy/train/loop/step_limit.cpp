#include "convoy/train/loop/step_limit.h"

#include <algorithm>

#include "convoy/base/tensor_memory.h"
#include "convoy/train/memory_use.h"

namespace convoy::train {

StepLimit::StepLimit(parallel::Strategy& strategy, int64_t device_memory) {
  if (device_memory == 0) return;
  // Subtracts memory that no rank owns: rows read ahead, and copies for a checkpoint. Pools are not
  // subtracted: they hold less now than at their peak, and count within the limit.
  const int64_t others = tensor_memory.held() - kept_bytes(strategy);
  const auto ranks = static_cast<int64_t>(strategy.replicas().size());
  tensor_memory.set_limit(std::max<int64_t>(1, others + ranks * device_memory));
}

StepLimit::~StepLimit() {
  tensor_memory.set_limit(0);
}

}  // namespace convoy::train
