#pragma once

#include <vector>

#include "convoy/nn/block.h"
#include "convoy/nn/losses/sampled_softmax.h"

namespace convoy::models {

/// Finds negatives of a target among the other targets of its step, on all ranks (Yi et al.,
/// "Sampling-Bias-Corrected Neural Modeling for Large Corpus Item Recommendations", 2019). Scores,
/// the target's too, are lowered by the logarithm of the item's share of all targets. An item that
/// several targets have counts as often.
class InBatchNegatives {
 public:
  /// Takes the number of the training's targets by id, where `counts` is known. An id without a
  /// count counts as one target.
  InBatchNegatives(const std::vector<int64_t>& counts, int64_t num_ids);

  /// Returns the negatives of these targets [N] among those of the step.
  nn::SampledNegatives of(const nn::StepIds& step, const at::Tensor& targets) const;

 private:
  mutable at::Tensor log_shares_;  // [num_ids] fp32, on the device that asked last
};

}  // namespace convoy::models
