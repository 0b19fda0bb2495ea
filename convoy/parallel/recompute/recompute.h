#pragma once

#include <set>
#include <vector>

#include "convoy/parallel/pipeline/pipeline.h"

namespace convoy::parallel {

/// Blocks that keep their inputs only (Chen et al., 2016), the fewest so that no stage keeps more
/// than `memory` bytes for backward with this schedule; of as many those that take least time. Of
/// more than twelve blocks of a stage not all sets are looked at: in a stretch those come first
/// that save most, then the first ones. Only blocks of `repeatable` are taken. Throws UsageError
/// with least_memory(), naming the stage that needs it, where all of them are not enough.
std::set<int64_t> blocks_to_recompute(const Cut& cut, const Orders& orders, const Costs& by_block,
                                      const std::set<int64_t>& repeatable, double memory);

/// Returns the least `memory` for which blocks_to_recompute() finds blocks.
double least_memory(const Cut& cut, const Orders& orders, const Costs& by_block,
                    const std::set<int64_t>& repeatable);

/// Peak bytes that a stage keeps for backward, with those of the block that is being recomputed.
double most_kept(const Cut& cut, const std::vector<Action>& order, int stage, const Costs& by_block,
                 const std::set<int64_t>& recomputed);

/// Blocks of each stage that save most, `num_of_stage` of each. Throws UsageError where a stage has
/// fewer.
std::set<int64_t> blocks_to_recompute(const Cut& cut, const std::vector<int64_t>& num_of_stage,
                                      const Costs& by_block, const std::set<int64_t>& repeatable);

}  // namespace convoy::parallel
