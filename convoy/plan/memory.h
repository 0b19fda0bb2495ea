#pragma once

#include <vector>

#include "convoy/parallel/replica.h"
#include "convoy/plan/profile.h"

namespace convoy::plan {

/// What a rank will hold at most in a step, by kind, before anything is allocated: state from what
/// its layout keeps; gradients and weights that are whole for a while, and activations, from
/// walking through its program with what blocks cost.
parallel::MemoryUse estimate(const schedule::Layout& layout, const schedule::Program& program,
                             const schedule::StepOptions& options, int64_t most_gathered,
                             const std::vector<BlockCost>& costs);

}  // namespace convoy::plan
