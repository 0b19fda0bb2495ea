#pragma once

#include <string>
#include <vector>

#include "convoy/conformance/difference.h"
#include "convoy/planner/time/share.h"

namespace convoy::conformance {

/// Facts on which it depends how closely a layout follows one device.
struct LayoutFacts {
  parallel::Parallelism split;
  bool half_precision = false;
  bool shares_blocks = false;  ///< several blocks read one parameter, as with tied embeddings
  bool on_gpu = false;
  bool over_network = false;  ///< collectives are not those of one host's shared memory
  double learning_rate = 0;
};

/// Largest differences of two trainings that agree.
struct Tolerances {
  double first_loss = 0, losses = 0, first_norm = 0, norms = 0;  ///< relative
  double gradients = 0, weights = 0;  ///< relative to the norm of all, as in Difference
};

/// Promise of docs/training.md on how closely a layout's numbers follow those of one device that
/// accumulates the same micro-batches.
struct Contract {
  bool bits = true;  ///< every loss, norm, weight and optimizer state is equal
  Tolerances at_most;
  bool same_products = false;  ///< each product is one device's: only sums over them differ
  std::string reason;          ///< reason why not the bits, in a few words

  /// "bits", or "to rounding: ...".
  std::string to_text() const;
};

/// Tolerances of trainings that add in another order. AdamW moves a weight by about the learning
/// rate, however small its gradient: where half precision rounds that gradient, weights differ by
/// as much.
Tolerances rounding_tolerances(bool half_precision, double learning_rate = 0);

/// Tolerances of trainings in half precision whose products are those of one device, bit for bit.
/// Sums over micro-batches and ranks are of fp32, so they differ by about 1e-7. Later a weight near
/// the middle between two numbers of bf16 may become either.
Tolerances same_product_tolerances(double learning_rate = 0);

/// Tolerances for two trainings in bf16 whose own rounding is large: `one` and `other` tell how far
/// each way of computing is from its fp32 on one device. Two such trainings differ by the sum of
/// both at most. A norm differs by no more than its gradients do. Half of a gradient is the limit,
/// whatever rounding does: beyond it a comparison proves nothing. `part`: of these differences that
/// counts.
Tolerances widened(const Tolerances& most, const Difference& one, const Difference& other,
                   double part = 1);

Contract contract_of(const LayoutFacts& facts);

/// Sentences on what breaks the contract; empty: all holds.
std::vector<std::string> broken(const Contract& contract, const Difference& difference);

}  // namespace convoy::conformance
