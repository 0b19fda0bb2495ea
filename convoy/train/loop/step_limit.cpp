#include "convoy/train/loop/step_limit.h"

#include <algorithm>

#include "convoy/base/tensor_memory.h"
#include "convoy/train/memory_use.h"

namespace convoy::train {

StepLimit::StepLimit(parallel::Strategy& strategy, int64_t device_memory) {
  if (device_memory == 0) return;
  // What is no rank's own does not count: rows read ahead, copies for a checkpoint.
  // Nor do pools here: they hold less than their most now, and count within the limit.
  const int64_t others = tensor_memory.held() - kept_bytes(strategy);
  const auto ranks = static_cast<int64_t>(strategy.replicas().size());
  tensor_memory.set_limit(std::max<int64_t>(1, others + ranks * device_memory));
}

StepLimit::~StepLimit() {
  tensor_memory.set_limit(0);
}

}  // namespace convoy::train
