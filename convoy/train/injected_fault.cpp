#include "convoy/train/injected_fault.h"

#include <ATen/ATen.h>

#include <cmath>

#include "convoy/base/fault.h"

namespace convoy::train {

void inject_fault(const char* phase, parallel::Strategy& strategy, const comm::Group& group) {
  const auto fault = fault_at(phase);
  if (fault == Fault::kMismatch) group.barrier("injected fault");
  if (fault != Fault::kNan) return;
  strategy.replicas().at(static_cast<size_t>(faulty_thread()))->flat().fill(NAN);
}

}  // namespace convoy::train
