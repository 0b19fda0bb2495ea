#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "convoy/planner/cost/profile.h"

namespace convoy::planner {

/// A block's operators, forward and backward, as a graph of which needs which.
struct OperatorGraph {
  int64_t operators = 0;
  double seconds = 0;   ///< of the block, one operator after the other
  double outside = 0;   ///< of these, between torch's operators: kernels of our own
  double in_a_row = 0;  ///< the longest way through operators that need each other's results

  /// Returns a bound in seconds: the block takes no less on so many ranks, whichever operators each
  /// of them has, were all messages free. What is outside counts as done by one.
  double least_seconds(int ranks) const {
    return outside + std::max(in_a_row, (seconds - outside) / ranks);
  }
};

/// Runs the blocks as profile() does, and finds each one's graph: an operator needs what it reads
/// of what others wrote, as ranges of memory.
std::vector<OperatorGraph> operator_graphs(const nn::BlockList& blocks,
                                           const parallel::MicroBatch& batch,
                                           ProfileOptions options);

}  // namespace convoy::planner
