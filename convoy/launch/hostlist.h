#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace convoy::launch {

/// Expands SLURM's short form of host names, "node[03-05,9],login" to node03 node04 node05 node9
/// login. Throws UsageError when brackets or ranges make no sense or stand for more than 65536
/// hosts.
std::vector<std::string> expand_hostlist(std::string_view text);

/// Expands SLURM's short form of counts per node, "2(x3),1" to 2 2 2 1. Throws UsageError.
std::vector<int> expand_counts(std::string_view text);

}  // namespace convoy::launch
