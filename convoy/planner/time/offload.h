#pragma once

#include <map>
#include <vector>

#include "convoy/parallel/layout.h"
#include "convoy/planner/time/cluster.h"
#include "convoy/planner/time/share.h"

namespace convoy::planner {

/// Seconds to bring a bucket of offloaded state to one of `num_ranks` ranks, and to write it back.
std::map<parallel::Kind, parallel::TransferTimes> transfer_times(const parallel::Layout& layout,
                                                                 const Cluster& cluster,
                                                                 const Parallelism& split,
                                                                 const StepFacts& facts,
                                                                 int num_ranks);

/// Lower bound of a step's offload transfers on the most loaded rank, in seconds; a rank updates
/// `elements` on average.
double least_transfer_seconds(double elements, const Cluster& cluster, const Parallelism& split,
                              const StepFacts& facts);

/// Bytes beyond the capacity of a place.
struct Excess {
  parallel::Place place = parallel::Place::Device;
  int64_t bytes = 0;
};

/// Bytes by which the offloaded state of a host's ranks exceeds its capacity, on the host that has
/// least; `stages`: layouts of the pipeline's.
Excess beyond_hosts(const std::vector<const parallel::Layout*>& stages, const Cluster& cluster,
                    const Parallelism& split, const StepFacts& facts, int num_ranks);

}  // namespace convoy::planner
