#pragma once

#include <vector>

#include "convoy/parallel/step_facts.h"
#include "convoy/planner/time/cluster.h"
#include "convoy/planner/time/predict.h"

namespace convoy::planner {

/// Costs of blocks with times of another device: products at its speed, each tensor that a block
/// makes written and read, and what its operations take to launch.
std::vector<BlockCost> on_device(std::vector<BlockCost> blocks,
                                 const std::vector<parallel::BlockCounts>& counts_of_row,
                                 const BlockShare& share, const Cluster& cluster,
                                 bool low_precision);

/// Speeds by rank of a cluster whose devices differ, in computing the model, where `device` has 1:
/// some devices are bound by products, others by their memory or by launches, for which a host
/// takes equal times on each.
std::vector<double> speeds_of_devices(const std::vector<BlockCost>& blocks,
                                      const std::vector<parallel::BlockCounts>& counts_of_row,
                                      const BlockShare& share, Cluster cluster, bool low_precision);

}  // namespace convoy::planner
