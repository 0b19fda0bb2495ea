#pragma once

#include <vector>

#include "convoy/parallel/run/types.h"
#include "convoy/profile/profile.h"
#include "convoy/schedule/run/run_options.h"

namespace convoy::profile {

using schedule::Products;

/// Counts the products of each block for the first row of a batch, while the blocks run on the host
/// with weights of zeros. No stopwatch: the same batch gives the same numbers on any machine. Of
/// blocks that are alike, with inputs that are alike, one is run, and has memory only meanwhile.
/// `blocks` are good for nothing else afterwards.
std::vector<Products> trace(const nn::BlockList& blocks, const parallel::MicroBatch& batch,
                            const ProfileOptions& options);

}  // namespace convoy::profile
