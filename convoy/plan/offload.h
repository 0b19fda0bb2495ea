#pragma once

#include <map>
#include <vector>

#include "convoy/plan/cluster.h"
#include "convoy/schedule/run/layout.h"
#include "convoy/schedule/run/run_options.h"

namespace convoy::plan {

/// What bringing a bucket of offloaded state to one of `num_ranks` ranks takes, and writing it.
std::map<schedule::Kind, schedule::TransferTimes> transfer_times(
    const schedule::Layout& layout, const Cluster& cluster, const schedule::RunOptions& options,
    int num_ranks);

/// What the transfers of a step take at the least on the rank that has most, where a rank updates
/// so many elements on average.
double least_transfer_seconds(double elements, const Cluster& cluster,
                              const schedule::RunOptions& options, int num_ranks);

/// What is too much for a place.
struct Excess {
  schedule::Place place = schedule::Place::Device;
  int64_t bytes = 0;
};

/// By how much the offloaded state of a host's ranks is more than it has room for, on the host that
/// has least; `stages`: layouts of the pipeline's.
Excess beyond_hosts(const std::vector<const schedule::Layout*>& stages, const Cluster& cluster,
                    const schedule::RunOptions& options, int num_ranks);

}  // namespace convoy::plan
