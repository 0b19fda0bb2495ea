#pragma once

#include <string>
#include <vector>

#include "convoy/plan/split.h"

namespace convoy::plan {

/// What a plan is wanted of.
struct Wishes {
  int num_ranks = 1;
  int64_t global_batch = 1;                   ///< rows of a step
  int64_t most_rows = 64;                     ///< of a micro-batch
  int ranks_per_host = 0;                     ///< where there are several hosts; 0: one
  schedule::RunOptions base = {};             ///< what stays as it is: precision, buckets, prefetch
  bool takes_recompute = true;                ///< the model has blocks that can be computed again
  bool takes_sequence = false;                ///< its blocks compute with shares of the tokens
  int64_t most_context = 1;                   ///< ranks that may share out the positions of a row
  std::vector<schedule::Place> offload = {};  ///< where state may lie, too
  bool all = false;  ///< no split is passed over because a bound says that it cannot win
};

/// All splits of `wishes`, those that are simpler first: with all state on the devices, of fewer
/// stages, tensor and context ranks, of lower stages of ZeRO, over all data ranks or over those of
/// a host.
std::vector<Split> splits_of(const Wishes& wishes);

/// Numbers of data ranks over which a step's rows do not divide, in words: no split has them. "":
/// it divides over all.
std::string undivided(const Wishes& wishes);

/// A split with one part of its state back on the devices, for each that is elsewhere.
std::vector<Split> less_offloaded(const Split& split);

}  // namespace convoy::plan
