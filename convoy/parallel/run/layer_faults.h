#pragma once

#include <functional>

#include "convoy/comm/group.h"

namespace convoy::parallel {

/// Returns the tensor ranks as layers see them: in their collectives the faults of CONVOY_FAULT's
/// phases `layer` and `layer_backward` happen, and `in_backward` tells which of them it is
/// (docs/faults.md). Where none is asked for nothing changes.
comm::Group with_layer_faults(const comm::Group& tensor, std::function<bool()> in_backward);

}  // namespace convoy::parallel
