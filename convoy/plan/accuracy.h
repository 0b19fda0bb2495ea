#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/plan/splits.h"

namespace convoy::plan {

/// Draws `number` different splits, one of each family in turn, some with part of the model's
/// `num_blocks` blocks recomputed or with more prefetch. The same seed draws the same splits; fewer
/// if there are no more.
std::vector<Split> draw_splits(const Wishes& wishes, int64_t num_blocks, uint64_t seed,
                               size_t number);

/// What a split was predicted to take, and what it took.
struct Trial {
  double predicted = 0, measured = 0;

  double error() const { return predicted / measured - 1; }
  /// "+1.2 %"
  std::string off() const;
};

/// How far predictions are off, as parts of what was measured.
struct Errors {
  double median = 0;       ///< of what they are off, whatever the side
  double nine_of_ten = 0;  ///< are off by this at most
  double worst = 0;        ///< with its sign
  int64_t number = 0;

  /// "median error 1.2 %, nine of ten within 4.5 %, the worst -7.9 %, of 12".
  std::string to_text() const;
};
Errors errors_of(const std::vector<Trial>& trials);
Json to_json(const Errors& errors);

/// Of the pairs of trials that were measured to differ by more than a part, those that were
/// predicted in their order less the others, of all (Kendall, 1938): 1 where there is no such pair.
double kendalls_tau(const std::vector<Trial>& trials, double apart = 0.05);

/// By what part the trial that was predicted to be the fastest is slower than the fastest.
double regret_of(const std::vector<Trial>& trials);

}  // namespace convoy::plan
