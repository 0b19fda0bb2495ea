#pragma once

#include <string>
#include <utility>
#include <vector>

#include "convoy/parallel/strategy.h"

namespace convoy::train {

/// The kinds of memory by name, in bytes.
std::vector<std::pair<std::string, int64_t>> kinds_of(const parallel::MemoryUse& use);

/// What a rank of this process holds, activations at their most since the last call: what tensors
/// took beside everything else. On the host only a program whose allocator counts knows of those.
parallel::MemoryUse take_memory_use(parallel::Strategy& strategy);

/// Of each kind the larger.
parallel::MemoryUse largest(const parallel::MemoryUse& a, const parallel::MemoryUse& b);
/// The same over all ranks. Collective.
parallel::MemoryUse largest(const parallel::MemoryUse& use, const comm::Group& group);

}  // namespace convoy::train
