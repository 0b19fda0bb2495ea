#pragma once

#include <tuple>
#include <vector>

#include "convoy/parallel/pipeline/cut.h"

namespace convoy::parallel {

/// Rounding of costs: costs that differ by less are equal.
inline constexpr double kCutRounding = 1e-11;

/// Costs of blocks, and the number of stretches to cut them into.
class CutProblem {
 public:
  CutProblem(const std::vector<double>& costs, int num_stages, int virtual_stages,
             Placement placement);

  size_t num_blocks() const { return before_.size() - 1; }
  size_t num_stages() const { return num_stages_; }
  size_t virtual_stages() const { return virtual_stages_; }
  size_t num_stretches() const { return num_stages_ * virtual_stages_; }
  Placement placement() const { return placement_; }
  size_t stage_of(size_t stretch) const;
  /// Cost of the blocks [begin, end).
  double cost(size_t begin, size_t end) const { return before_[end] - before_[begin]; }
  double total() const { return before_.back(); }

 private:
  std::vector<double> before_;  // [block] of all blocks before it
  size_t num_stages_, virtual_stages_;
  Placement placement_;
};

/// Ends of stretches, the last behind the last block.
using Ends = std::vector<size_t>;

/// Score of a cut, the smaller the better: dearest stage, dearest stretch, sum of squares.
using CutScore = std::tuple<double, double, double>;
CutScore score(const CutProblem& problem, const Ends& ends);
/// Whether `a` is better than `b` by more than rounding makes.
bool is_better(const CutScore& a, const CutScore& b);

/// Returns the best cut into one stretch a stage.
Ends cut_once(const CutProblem& problem);
/// Returns the best cut into two stretches a stage; none is dearer than one of `limit`. Empty: the
/// search would take too long.
Ends cut_twice(const CutProblem& problem, double limit);
/// Moves blocks from stretch to stretch while that makes a cut better.
Ends improved(const CutProblem& problem, Ends ends);
/// Searches all cuts for one that is better than `ends`, or as many as there is time for.
Ends searched(const CutProblem& problem, const Ends& ends);

}  // namespace convoy::parallel
