#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convoy/planner/search/splits.h"
#include "convoy/planner/time/predict.h"

namespace convoy::planner {

/// A split with its prediction.
struct Candidate {
  Parallelism split;
  Prediction prediction;
  size_t simplicity = 0;  ///< its place among all splits, the simplest first
};

/// Results of a search.
struct SearchResult {
  std::vector<Candidate> tried;  ///< the fastest that fits first, then those that do not fit
  int64_t num_bounded = 0;       ///< left out: by their bounds they are slower, or do not fit
  std::vector<std::string> refused = {};  ///< reasons why splits do not fit the model, each once

  /// Returns the fastest that fits; null: none does.
  const Candidate* best() const;
  /// Tried splits that fit, of which no other is both as fast and as small; from the fastest on.
  std::vector<const Candidate*> front() const;
  /// Returns the fastest of each family, those that fit first.
  std::vector<const Candidate*> of_families() const;
  /// Returns the split with least memory; null: nothing was tried.
  const Candidate* smallest() const;
};

/// Searches for the fastest split that fits. Tries splits in the order of their bounds until none
/// that is left can be faster than the best; of each family one at least. Then tries those that may
/// be faster still when as few blocks are recomputed as fit, or with a variant of a knob
/// (Knob::variants). A split that fits is not tried with more of its state offloaded, which only
/// takes longer. `say` gets the numbers of done and of all splits. Of equally fast ones the simpler
/// one wins, so the same question has the same answer.
SearchResult search(const ModelCosts& costs, const Cluster& cluster, const SearchSpace& space,
                    const std::function<void(size_t, size_t)>& say = {});

}  // namespace convoy::planner
