#pragma once

#include <string>
#include <vector>

namespace convoy::comm {

/// A name of this host that is the same for ranks that can share memory. Containers of one machine
/// that share no network namespace count as hosts of their own.
std::string own_host();

/// Returns the host of each rank, numbered in the order of their first ranks.
std::vector<int> number_hosts(const std::vector<std::string>& host_of_rank);

}  // namespace convoy::comm
