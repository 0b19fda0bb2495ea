#pragma once

#include <cstdint>
#include <vector>

#include "convoy/comm/group.h"

namespace convoy::job {

/// Numbers the hosts in the order of their first ranks, by rank. `machines`: any number for each
/// machine, by rank. Ranks of one machine with the same local rank are of several jobs' hosts that
/// it stands for, as where a test starts two launchers.
std::vector<int> hosts_of_ranks(const std::vector<int64_t>& machines,
                                const std::vector<int64_t>& local_ranks);

/// Numbers the hosts of a group's ranks, each of which tells the machine that it is on. Collective.
std::vector<int> hosts_of_ranks(const comm::Group& all, int local_rank);

}  // namespace convoy::job
