#pragma once

#include <functional>

// Threads of a kernel's block, taken in turns by one thread of the host, so that they can wait for
// each other.
namespace convoy::fake_gpu {

/// Runs `body(i)` for i of [0, count), each on a stack of its own. Throws where some of them wait
/// and nobody else can go on.
void run_fibers(unsigned count, const std::function<void(unsigned)>& body);

/// Returns the number of the fiber that runs.
unsigned current_fiber();

/// Waits until all fibers of the block that have not ended wait here, too.
void wait_for_block();

/// Gives `value` to the other fibers of this one's warp of 32; returns that of its fiber `lane`.
/// All of the warp that have not ended call it.
unsigned long long swap_in_warp(unsigned long long value, unsigned lane);

}  // namespace convoy::fake_gpu
