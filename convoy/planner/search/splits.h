#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "convoy/planner/time/share.h"

namespace convoy::planner {

/// Run whose split is searched for, and the splits to try.
struct SearchSpace {
  static constexpr int64_t kAnyNumber = std::numeric_limits<int64_t>::max();

  int num_ranks = 1;
  int64_t global_batch = 1;  ///< rows of a step
  int64_t most_rows = 64;    ///< of a micro-batch
  int ranks_per_host = 0;    ///< where there are several hosts; 0: one
  Parallelism base = {};     ///< members that no split changes, as bucket sizes
  StepFacts facts = {};
  bool takes_recompute = true;                ///< the model has blocks that can be computed again
  bool takes_sequence = false;                ///< its blocks compute with shares of the tokens
  int64_t most_context = 1;                   ///< ranks that may share out the positions of a row
  int64_t num_experts = 0;                    ///< of each layer with some; 0: the model has none
  int64_t most_stages = kAnyNumber;           ///< of a pipeline: each has a block at least
  int64_t most_tensor = kAnyNumber;           ///< ranks that may share out a layer
  std::string beyond_tensor = {};             ///< reason why there are no more of them
  std::vector<parallel::Place> offload = {};  ///< further places of state
  bool all = false;  ///< no split is passed over because a bound says that it cannot win
};

/// All splits to try, simpler ones first: less offload, then fewer stages, tensor and context
/// ranks, then fewer expert ranks, then lower stages of ZeRO, with state sharded over all data
/// ranks or over those of a host.
std::vector<Parallelism> splits_of(const SearchSpace& space);

/// Says which numbers of data ranks, tensor ranks and stages no split has, and why.
std::vector<std::string> left_out(const SearchSpace& space);

/// Returns, for each part of the state that `split` offloads, the split that does not offload it.
std::vector<Parallelism> less_offloaded(const Parallelism& split);

}  // namespace convoy::planner
