#pragma once

#include <string>

#include "convoy/conformance/training_record.h"

namespace convoy::conformance {

/// Difference of one kind of numbers, and where it is largest.
struct Gap {
  double size = 0;    ///< relative; infinite where one side is not finite or not there
  std::string where;  ///< "step 3", or the name of a parameter

  /// Sets size and place to `other` and `at` if `other` is larger.
  void raise(double other, const std::string& at);
};

/// Differences of a training from another one of the same rows.
struct Difference {
  bool same_bits = true;  ///< every loss, norm, weight and optimizer state
  Gap first_loss;         ///< |a - b| / |b| of the first step's loss
  Gap losses;             ///< and of later ones
  Gap first_norm;         ///< of the first step's gradient norm
  Gap norms;              ///< and of later ones
  Gap gradients;          ///< first moments: norm of a parameter's difference / norm of all
  Gap weights;            ///< norm of a parameter's difference / norm of all weights
};

/// Compares a training with its reference, which has as many steps.
///
/// Adam divides a gradient by its own size, so where all of a gradient is rounding error, two
/// correct trainings update a weight in opposite directions. Such elements, with a second moment
/// below 1e-10 of the largest one, are left out of `weights`.
Difference difference(const TrainingRecord& training, const TrainingRecord& reference);

}  // namespace convoy::conformance
