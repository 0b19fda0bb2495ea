#pragma once

#include <vector>

#include "convoy/parallel/buffers/types.h"
#include "convoy/parallel/buffers/update.h"

namespace convoy::parallel {

/// Ids that the last block tells of the step's micro-batches on all of `ranks`, over which the rows
/// are dealt (nn::Block::collects_ids). Collective.
nn::StepIds collect_ids(nn::Block& last, const std::vector<MicroBatch>& micro_batches,
                        const StepInput& input, const comm::Group& ranks, at::Device device);

}  // namespace convoy::parallel
