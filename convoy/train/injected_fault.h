#pragma once

#include "convoy/parallel/strategy/strategy.h"

namespace convoy::train {

/// Triggers the faults that CONVOY_FAULT sets for `phase`, for tests: see base/fault.h. Internal to
/// the component.
void inject_fault(const char* phase, parallel::Strategy& strategy, const comm::Group& group);

}  // namespace convoy::train
