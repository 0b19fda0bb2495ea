#pragma once

#include <vector>

#include "convoy/parallel/memory_use.h"
#include "convoy/parallel/program/program.h"

namespace convoy::parallel {

/// Costs of a block of a model for one micro-batch, read from running it (planner::profile). Bytes
/// are those of tensors, weights and their gradients left out.
struct BlockCost {
  double forward_seconds = 0, backward_seconds = 0;
  double weight_seconds = 0;   ///< of the backward its second half, where it comes in halves
  int64_t kept_bytes = 0;      ///< from forward until backward, what it returns among it
  int64_t put_off_bytes = 0;   ///< from the first half of a backward until the second
  int64_t returned_bytes = 0;  ///< of what it returns: all that is kept where it is recomputed
  int64_t forward_bytes = 0;   ///< peak above what was there before, while it runs forward
  int64_t backward_bytes = 0;  ///< peak above what it kept, while it runs backward
  int64_t half_bytes = 0;      ///< peak above what it kept, in the first half of a backward
  // Bytes of the result that the next block reads, without what is part of the batch, and of its
  // gradient: the messages between stages of a pipeline.
  int64_t sent_bytes = 0, grad_bytes = 0;
  int64_t sent_parts = 0, grad_parts = 0;  ///< tensors
  // Number and bytes of the reductions over tensor ranks inside of the block. A gather and a
  // reduce-scatter count with half the bytes of the whole.
  int64_t forward_sums = 0, forward_sum_bytes = 0;
  int64_t backward_sums = 0, backward_sum_bytes = 0;
  // Number and bytes of the messages that a rank sends to the next one on its ring of context
  // ranks.
  int64_t forward_messages = 0, forward_message_bytes = 0;
  int64_t backward_messages = 0, backward_message_bytes = 0;
  int64_t expert_bytes = 0;  ///< rows that a rank sends to experts of other ranks and its own
};

/// Number of sharded buckets of gradients that are summed while another one fills.
inline constexpr size_t kBucketsInFlight = 2;

/// Memory of a step. All kinds but activations are pools or stay, so the peak of all is theirs.
struct StepMemory {
  MemoryUse use;
  int64_t peak = -1;  ///< instruction during which activations are at their most; -1: none count
};

/// Peak memory of a rank in a step, by kind: state from its layout; gradients and weights that are
/// whole for a while, and activations, from walking through its program with the costs of blocks
/// (none: activations count nothing). `state_bytes`: bytes of optimizer state of a parameter.
StepMemory memory_of(const Layout& layout, const Program& program, const StepOptions& options,
                     int64_t most_gathered, const std::vector<BlockCost>& costs,
                     int64_t state_bytes);

/// Largest number of rows that a step reads of a unit that is kept by rows, on all ranks together.
int64_t most_rows_read(const Layout& layout, int64_t unit, const StepOptions& options);

}  // namespace convoy::parallel
