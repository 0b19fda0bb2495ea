#pragma once

#include <vector>

#include "convoy/parallel/buffers/types.h"
#include "convoy/parallel/step_facts.h"
#include "convoy/planner/cost/profile.h"

namespace convoy::planner {

using parallel::BlockCounts;

/// Returns the first rows of a batch, padded as the whole is.
parallel::MicroBatch first_rows(const parallel::MicroBatch& batch, int64_t number);

/// Counts what each block takes for a row of a batch, while the blocks run on the host with weights
/// of zeros: products, which are counted and left out, and the bytes of tensors that live. No
/// stopwatch and no allocator: the same batch gives the same numbers on any machine. Takes the
/// first rows, as many as eight where that is soon done. Of blocks that are alike, with inputs that
/// are alike, one is run, and has memory only meanwhile. `blocks` are good for nothing else
/// afterwards.
std::vector<BlockCounts> trace(const nn::BlockList& blocks, const parallel::MicroBatch& batch,
                               const ProfileOptions& options);

}  // namespace convoy::planner
