#pragma once

#include <vector>

#include "convoy/parallel/pass.h"

namespace convoy::plan {

/// What a block of a model costs for one micro-batch, read from running it. Bytes are those of
/// tensors that the process's allocator counts (base/tensor_memory), weights and their gradients
/// left out.
struct BlockCost {
  double forward_seconds = 0, backward_seconds = 0;
  int64_t kept_bytes = 0;      ///< from forward until backward, what it returns among it
  int64_t returned_bytes = 0;  ///< of what it returns: all that is kept where it is recomputed
  int64_t forward_bytes = 0;   ///< at most beside what was there before, while it runs forward
  int64_t backward_bytes = 0;  ///< at most beside what it kept, while it runs backward
  // Of what it hands to the next block, but for what is part of the batch, and of its gradient:
  // what another stage of a pipeline receives and sends.
  int64_t sent_bytes = 0, grad_bytes = 0;
  int64_t sent_parts = 0, grad_parts = 0;  ///< tensors
};

struct ProfileOptions {
  at::ScalarType compute_dtype = at::kFloat;
  uint64_t seed = 42;
};

/// Runs the blocks one after the other, forward and backward, on the host; each has weights of its
/// own only while it runs, so that the memory of the dearest is all that is needed. Of blocks that
/// are alike, with inputs that are alike, one is run. `blocks` are good for nothing else
/// afterwards.
std::vector<BlockCost> profile(const nn::BlockList& blocks, const parallel::MicroBatch& batch,
                               const ProfileOptions& options);

}  // namespace convoy::plan
