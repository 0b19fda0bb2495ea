#pragma once

#include <vector>

#include "convoy/schedule/check.h"

namespace convoy::schedule {

/// What computing a micro-batch takes, by block, in any unit.
struct Costs {
  std::vector<double> forward, backward;
};

/// A forward, recomputation or backward on one rank.
struct Span {
  Instruction instruction;
  double begin = 0, end = 0;
};

/// A step as it would go.
struct Timeline {
  std::vector<std::vector<Span>> ranks;
  double length = 0;

  /// The part of the time in which ranks compute nothing.
  double idle() const;
};

/// Plays the programs of all ranks, which must have passed check(). What travels takes no time, a
/// receive waits for what it receives, ReduceLoss for all ranks; so that what stands still does so
/// because of the schedule, or since stages are not alike.
Timeline simulate(const std::vector<RankProgram>& ranks, const Costs& costs);

}  // namespace convoy::schedule
