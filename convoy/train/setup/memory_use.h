#pragma once

#include <string>
#include <utility>
#include <vector>

#include "convoy/parallel/data/strategy.h"

namespace convoy::train {

/// The kinds of memory by name, in bytes.
std::vector<std::pair<std::string, int64_t>> kinds_of(const schedule::MemoryUse& use);

/// What a rank of each stage holds, activations at their most since the last call: what tensors
/// took beside everything else. On the host only a program whose allocator counts knows of those.
/// Nothing of stages that other processes run; one without a pipeline.
std::vector<schedule::MemoryUse> take_memory_use(parallel::Strategy& strategy);

/// What the replicas of this process keep together from step to step, but for pools.
int64_t kept_bytes(parallel::Strategy& strategy);

/// Of each kind the larger.
schedule::MemoryUse largest(const schedule::MemoryUse& a, const schedule::MemoryUse& b);
schedule::MemoryUse largest(const std::vector<schedule::MemoryUse>& uses);
/// The same over all ranks, of each stage. Collective.
std::vector<schedule::MemoryUse> largest(const std::vector<schedule::MemoryUse>& uses,
                                         const comm::Group& group);

}  // namespace convoy::train
