#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/trials/space.h"

namespace convoy::trials {

/// Round of successive halving: this many trials train to this share of all steps.
struct Rung {
  int64_t trials = 0;
  double share = 1;  ///< 1 in the last round
};

/// Rounds for so many trials: each has the best 1 / `reduction` of the one before, rounded up, and
/// trains them `reduction` times as long. Fewer than `number` where one trial is left before.
std::vector<Rung> rungs(int64_t trials, int64_t number, int64_t reduction);

/// Evaluation of a trial at the end of a round.
struct Score {
  double value = 0;
  std::optional<double> error = {};  ///< standard error of the value
  double seconds = 0;                ///< that this round took
};

/// One set of options, and how far it came.
struct Trial {
  Options options;
  std::vector<Score> scores = {};  ///< by round
  std::string failure = "";        ///< reason why it ended early; "" = it did not

  bool failed() const { return !failure.empty(); }
};

/// Outcome of a trial in a round.
struct Outcome {
  Score score;
  std::string failure = "";  ///< "" = it has a score
};

/// Trials of a search, in the order in which they were drawn.
struct Search {
  std::vector<Trial> trials;
  std::vector<Rung> rungs;
  bool greater_is_better = true;

  /// Indices of the trials for round `rung`: of those that came through the one before, and did not
  /// fail in this one, the best, of equal ones the first.
  std::vector<size_t> starters(size_t rung) const;
  /// All trials, the best first: by rounds that they came through, then those that did not fail,
  /// then by their last score.
  std::vector<size_t> best_first() const;

  /// [{"options": {...}, "scores": [{"value": .., "error": .., "seconds": ..}], "failure": ".."}].
  Json to_json() const;
  /// Takes the scores of a search that was interrupted: what failed may go well now. Throws
  /// Json::exception for another form, and false where the trials are others.
  bool take(const Json& trials);
};

/// Hooks of a search.
struct Hooks {
  /// Trains a trial through a round. Called by several threads at a time.
  std::function<Outcome(size_t trial, size_t rung)> run;
  /// Called with each outcome, one at a time, when it is among the trials.
  std::function<void(size_t trial, size_t rung)> done;
};

/// Runs all rounds, `jobs` trials at a time. The next best trial takes the place of one that fails,
/// and one that has a score of a round is not run again. Throws what a hook throws, after the
/// trainings that run then.
void run(Search& search, int64_t jobs, const Hooks& hooks);

}  // namespace convoy::trials
