#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "convoy/base/options.h"
#include "convoy/parallel/parallelism.h"

// Options that are no plain values, by their texts. Each throws UsageError for a text that is none
// of its.
namespace convoy::parallel {

/// Numbers of blocks: 4,8.
OptionTable::Text block_numbers(std::vector<int64_t>& splits);

/// Numbers of layers, 2,1,1,0, or auto.
OptionTable::Text layers_to_recompute(RecomputeOptions& recomputed);

/// Values of offload_*, and their places.
std::vector<std::pair<std::string, Place>> offload_places();

/// A size of memory, 4GiB, in bytes; none is 0.
OptionTable::Text memory_size(const char* name, int64_t& bytes);

}  // namespace convoy::parallel
