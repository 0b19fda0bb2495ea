#pragma once

#include <cstdint>
#include <vector>

#include "convoy/base/options.h"
#include "convoy/schedule/run/run_options.h"

// Internal to the component: options of a pipeline that are no plain values. Each throws UsageError
// for a text that is none of its.
namespace convoy::train {

/// Numbers of blocks: 4,8.
OptionTable::Text block_numbers(std::vector<int64_t>& splits);

/// auto, or numbers: 2,1,1,0.
OptionTable::Text layers_to_recompute(schedule::RecomputeOptions& recomputed);

/// A size of memory, 4GiB, in bytes; none is 0.
OptionTable::Text memory_size(const char* name, int64_t& bytes);

}  // namespace convoy::train
