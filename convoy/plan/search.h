#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convoy/plan/predict.h"

namespace convoy::plan {

/// What a plan is wanted of.
struct Wishes {
  int num_ranks = 1;
  int64_t global_batch = 1;        ///< rows of a step
  int64_t most_rows = 64;          ///< of a micro-batch
  int ranks_per_host = 0;          ///< where there are several hosts; 0: one
  schedule::RunOptions base = {};  ///< what stays as it is: precision, buckets, prefetch
  bool takes_recompute = true;     ///< the model has blocks that can be computed again
  std::vector<schedule::Place> offload =
      {};            ///< where the optimizer may go, when nothing fits else
  bool all = false;  ///< no split is passed over because a bound says that it cannot win
};

/// A split with what it would take.
struct Planned {
  Split split;
  Prediction prediction;
  size_t simplicity = 0;  ///< its place among all splits, the simplest first
};

/// What a search found.
struct Found {
  std::vector<Planned> tried;  ///< the fastest that fits first, then those that do not fit
  int64_t num_bounded = 0;     ///< left out: by their bounds they are slower, or do not fit
  std::vector<std::string> refused = {};  ///< why the model does not go into some splits, each once

  /// The fastest that fits; null: none does.
  const Planned* best() const;
  /// Those that fit, of what was tried, of which none is as fast with as little memory; from the
  /// fastest on.
  std::vector<const Planned*> front() const;
  /// The fastest of each family, those that fit first.
  std::vector<const Planned*> of_families() const;
  /// What needs least memory; null: nothing was tried.
  const Planned* smallest() const;
};

/// All splits of `wishes`, those that are simpler first: of fewer stages and tensor ranks, of lower
/// stages of ZeRO, over all data ranks or over those of a host.
std::vector<Split> splits_of(const Wishes& wishes);

/// Tries splits in the order of their bounds until none that is left can be faster than the best;
/// of each family one at least. Then those that may be faster still when as few blocks are
/// recomputed as fit, or when stage 3 of ZeRO gathers further ahead.
/// What is offloaded is tried where nothing else fits. `say` hears how
/// many of how many are done. Of equally fast ones the simpler one wins, so the same question has
/// the same answer.
Found search(const Numbers& numbers, const Cluster& cluster, const Wishes& wishes,
             const std::function<void(size_t, size_t)>& say = {});

}  // namespace convoy::plan
