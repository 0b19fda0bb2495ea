#pragma once

#include <map>
#include <string>

#include "convoy/launch/agent.h"
#include "convoy/launch/place.h"

namespace convoy::launch {

/// What a rank finds in its environment: torchrun's variables, and some of our own.
std::map<std::string, std::string> rank_variables(const Place& place, const LaunchOptions& options,
                                                  int rank);

}  // namespace convoy::launch
