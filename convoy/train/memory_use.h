#pragma once

#include <string>
#include <utility>
#include <vector>

#include "convoy/parallel/strategy/strategy.h"

namespace convoy::train {

/// Returns the kinds of memory by name, in bytes.
std::vector<std::pair<std::string, int64_t>> kinds_of(const parallel::MemoryUse& use);

/// Memory of a rank of each stage. Activations are the peak since the last call: tensors beside
/// everything else. On the host only a program with a counting allocator knows them. Zeros for
/// stages that other processes run; without a pipeline one entry.
std::vector<parallel::MemoryUse> take_memory_use(parallel::Strategy& strategy);

/// Bytes that the replicas of this process keep together from step to step, but for pools.
int64_t kept_bytes(parallel::Strategy& strategy);

/// Returns the larger value of each kind.
parallel::MemoryUse largest(const parallel::MemoryUse& a, const parallel::MemoryUse& b);
parallel::MemoryUse largest(const std::vector<parallel::MemoryUse>& uses);
/// Returns the largest values over all ranks, for each stage. Collective.
std::vector<parallel::MemoryUse> largest(const std::vector<parallel::MemoryUse>& uses,
                                         const comm::Group& group);

}  // namespace convoy::train
