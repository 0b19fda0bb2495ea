#pragma once

#include <string>
#include <vector>

#include "convoy/conformance/contract.h"
#include "convoy/conformance/run_log.h"

namespace convoy::conformance {

/// One kind of numbers of two runs, at the steps at which both logged it.
struct Compared {
  std::string name;          ///< "rows", "weights", "loss", "grad_norm", or a metric
  int64_t steps = 0;         ///< at which both have it
  int64_t equal_until = 0;   ///< last step before the first difference; 0: there is none
  int64_t differs_from = 0;  ///< first step with another value; 0: all are equal
  int64_t beyond_from = 0;   ///< first step with more than rounding; 0: none, or no tolerance
  Gap largest;               ///< of numbers
  std::string detail;        ///< both values there, or the parameters
};

/// Agreement of two runs: of each kind of numbers where they first differ and by how much.
struct Comparison {
  Compared rows, weights, loss, grad_norm;
  std::vector<Compared> metrics;
  std::vector<std::string> other_options;  ///< sentences, without those on where files lie
  int64_t other_means = 0;   ///< losses that were not compared: means over other steps
  bool anything = true;      ///< both logged a number of the training at one step at least
  std::string shorter;       ///< a sentence on the run that logged fewer steps; "": none did
  bool ended_early = false;  ///< that run was to train more
  bool same_bits = true;     ///< of all that both logged, but metrics
  bool to_rounding = true;  ///< equal rows, and losses and norms within docs/verify.md's tolerances

  /// Whether the runs are equal, or equal to rounding, in all that both were to train.
  bool agrees() const { return anything && !ended_early && (same_bits || to_rounding); }
};

Comparison compare(const RunLog& a, const RunLog& b);

}  // namespace convoy::conformance
