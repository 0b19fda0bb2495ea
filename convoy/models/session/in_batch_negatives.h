#pragma once

#include <vector>

#include "convoy/nn/block.h"
#include "convoy/nn/losses/sampled_softmax.h"

namespace convoy::models {

/// Negatives of a target that are the other targets of its step, on all ranks (Yi et al.,
/// "Sampling-Bias-Corrected Neural Modeling for Large Corpus Item Recommendations", 2019). Scores
/// are lowered by the logarithm of the item's share of all targets, the target's too; an item that
/// several targets have counts as often.
class InBatchNegatives {
 public:
  /// `counts`: of the training's targets by id, where they are known; an id without one counts as
  /// if it were one once.
  InBatchNegatives(const std::vector<int64_t>& counts, int64_t num_ids);

  /// Negatives of these targets [N] among those of the step.
  nn::SampledNegatives of(const nn::StepIds& step, const at::Tensor& targets) const;

 private:
  mutable at::Tensor log_shares_;  // [num_ids] fp32, on the device that asked last
};

}  // namespace convoy::models
