#pragma once

#include <map>
#include <vector>

#include "convoy/plan/cluster.h"
#include "convoy/plan/share.h"
#include "convoy/schedule/run/layout.h"

namespace convoy::plan {

/// Seconds to bring a bucket of offloaded state to one of `num_ranks` ranks, and to write it back.
std::map<schedule::Kind, schedule::TransferTimes> transfer_times(const schedule::Layout& layout,
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
  schedule::Place place = schedule::Place::Device;
  int64_t bytes = 0;
};

/// Bytes by which the offloaded state of a host's ranks exceeds its capacity, on the host that has
/// least; `stages`: layouts of the pipeline's.
Excess beyond_hosts(const std::vector<const schedule::Layout*>& stages, const Cluster& cluster,
                    const Parallelism& split, const StepFacts& facts, int num_ranks);

}  // namespace convoy::plan
