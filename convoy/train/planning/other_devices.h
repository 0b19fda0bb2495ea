#pragma once

#include <vector>

#include "convoy/plan/cluster.h"
#include "convoy/plan/predict.h"
#include "convoy/schedule/run/step_facts.h"

namespace convoy::train {

/// Costs of blocks with times of another device: products at its speed, each tensor that a block
/// makes written and read, and what its operations take to launch.
std::vector<plan::BlockCost> on_device(std::vector<plan::BlockCost> blocks,
                                       const std::vector<schedule::BlockCounts>& counts_of_row,
                                       const plan::BlockShare& share, const plan::Cluster& cluster,
                                       bool low_precision);

/// Speeds by rank of a cluster whose devices differ, in computing the model, where `device` has 1:
/// some devices are bound by products, others by their memory or by launches, for which a host
/// takes equal times on each.
std::vector<double> speeds_of_devices(const std::vector<plan::BlockCost>& blocks,
                                      const std::vector<schedule::BlockCounts>& counts_of_row,
                                      const plan::BlockShare& share, plan::Cluster cluster,
                                      bool low_precision);

}  // namespace convoy::train
