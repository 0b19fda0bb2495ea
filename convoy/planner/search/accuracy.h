#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/planner/search/splits.h"

namespace convoy::planner {

/// Draws `number` different splits, one of each family in turn, some with part of the model's
/// `num_blocks` blocks recomputed or with a variant of a knob (Knob::variants). The same seed draws
/// the same splits; fewer if there are no more.
std::vector<Parallelism> draw_splits(const SearchSpace& space, int64_t num_blocks, uint64_t seed,
                                     size_t number);

/// Predicted and measured time of a split, in seconds.
struct TimedSplit {
  double predicted = 0, measured = 0;

  double error() const { return predicted / measured - 1; }
  /// "+1.2 %"
  std::string off() const;
};

/// Errors of predictions, as fractions of the measured times.
struct Errors {
  double median = 0;       ///< of the errors, whatever their sign
  double nine_of_ten = 0;  ///< of the errors, whatever their sign, are at most this
  double worst = 0;        ///< with its sign
  int64_t number = 0;

  /// "median error 1.2 %, nine of ten within 4.5 %, the worst -7.9 %, of 12".
  std::string to_text() const;
};
Errors errors_of(const std::vector<TimedSplit>& trials);
Json to_json(const Errors& errors);

/// Kendall's rank correlation (1938) of predicted and measured times. It counts the pairs of trials
/// whose measured times differ by more than the fraction `apart`: pairs predicted in the measured
/// order less the other pairs, divided by all of them; 1 where there is no such pair.
double kendalls_tau(const std::vector<TimedSplit>& trials, double apart = 0.05);

/// Fraction by which the trial with the shortest predicted time is slower than the fastest; 0
/// without trials.
double regret_of(const std::vector<TimedSplit>& trials);

}  // namespace convoy::planner
