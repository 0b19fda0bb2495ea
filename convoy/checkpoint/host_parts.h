#pragma once

#include <functional>

#include "convoy/parallel/buffers/state.h"

namespace convoy::checkpoint {

/// Keeps the pieces that this process writes. Where all see the files the state replicas share the
/// writing; else the first replica writes everything, which may be the only one on rank 0's host.
void keep_own(parallel::State& state, bool all_see);

/// Calls `use` with each piece of a state: those of the host as they are, those of GPUs in parts,
/// of which some come to the host together. `backward`: the last tensor first. `between` is called
/// now and then and may throw.
void each_on_host(const parallel::State& state, bool backward,
                  const std::function<void(size_t tensor, const parallel::StatePiece& piece)>& use,
                  const std::function<void()>& between = {});

}  // namespace convoy::checkpoint
