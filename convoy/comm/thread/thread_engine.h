#pragma once

#include <chrono>
#include <vector>

#include "convoy/comm/group.h"

namespace convoy::comm {

/// Groups for `size` threads of this process; thread r uses groups[r]. Sums are made in rank order,
/// so their bits do not depend on timing.
std::vector<Group> make_thread_groups(int size, std::chrono::milliseconds timeout);

}  // namespace convoy::comm
