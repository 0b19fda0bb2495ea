#pragma once

#include <vector>

#include "convoy/comm/group.h"
#include "convoy/comm/store.h"

namespace convoy::comm {

/// A group of processes on several hosts (`hosts` as from number_hosts()). All-reduce,
/// reduce-scatter, all-gather and broadcast go through shared memory inside each host and over Gloo
/// between the first ranks of the hosts, so the network carries each byte once per host; the rest
/// is Gloo's. Sums are made host by host. Two hosts send each other only the sums that the other's
/// ranks get.
Group make_hierarchy_group(const StoreAddress& point, const c10::intrusive_ptr<c10d::Store>& store,
                           const std::vector<int>& hosts);

}  // namespace convoy::comm
