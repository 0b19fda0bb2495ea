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
  Gap largest;               ///< of numbers
  std::string detail;        ///< both values there, or the parameters
};

/// How far two runs agree.
struct Comparison {
  Compared rows, weights, loss, grad_norm;
  std::vector<Compared> metrics;
  std::vector<std::string> other_options;  ///< sentences, without those on where files lie
  bool same_bits = true;                   ///< of all that both logged, but metrics
  bool to_rounding = true;  ///< equal rows, and losses and norms within docs/verify.md's tolerances
};

Comparison compare(const RunLog& a, const RunLog& b);

}  // namespace convoy::conformance
