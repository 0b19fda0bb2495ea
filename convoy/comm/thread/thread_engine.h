#pragma once

#include <chrono>
#include <vector>

#include "convoy/comm/group.h"

namespace convoy::comm {

/// Groups for `size` threads of this process; thread r uses groups[r]. Sums are made in rank order,
/// so their bits do not depend on timing. Host tensors go through the same algorithms as those of
/// processes; all-reduce, broadcast and all-gather of GPU tensors go from device to device.
std::vector<Group> make_thread_groups(int size, std::chrono::milliseconds timeout);

}  // namespace convoy::comm
