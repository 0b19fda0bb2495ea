#pragma once

#include <memory>
#include <string>

#include "convoy/dataset/batches.h"
#include "convoy/parallel/buffers/types.h"

namespace convoy::planner {

/// Evaluation of all training data that a run makes once, before its first step.
struct FirstPass {
  std::string when;  ///< "while it computes the reference's log-probabilities"
  std::shared_ptr<const dataset::Dataset> data;
  /// Makes the model that evaluates, which is there beside the trained one as long; empty: the
  /// trained model does.
  parallel::ModelFactory other = {};
};

}  // namespace convoy::planner
