#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <vector>

#include "convoy/comm/store.h"

namespace convoy::comm {

/// Which ranks can share memory: the host of each rank, numbered in the order of their first ranks.
/// Containers of one machine that share no network namespace count as hosts of their own. Waits for
/// all ranks; throws CommunicationError naming those that did not come within `patience`.
std::vector<int> find_hosts(const MeetingPoint& point, const c10::intrusive_ptr<c10d::Store>& store,
                            std::chrono::milliseconds patience);

}  // namespace convoy::comm
