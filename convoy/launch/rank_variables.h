#pragma once

#include <map>
#include <string>

#include "convoy/launch/agent.h"
#include "convoy/launch/node_info.h"

namespace convoy::launch {

/// What a rank finds in its environment: torchrun's variables, and some of our own.
std::map<std::string, std::string> rank_variables(const NodeInfo& node,
                                                  const LaunchOptions& options, int rank);

}  // namespace convoy::launch
