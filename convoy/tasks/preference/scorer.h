#pragma once

#include <ATen/core/Tensor.h>

#include "convoy/train/scorer.h"

namespace convoy::tasks {

/// Means over the pairs of nn::preference_metrics(), by TRL's names: `<prefix>rewards/margins` and
/// so on.
class PreferenceScorer : public train::Scorer {
 public:
  PreferenceScorer();
  void add(const nn::Bundle& out) override;
  void reduce(const comm::Group& group) override;
  std::map<std::string, double> values(const std::string& prefix, double loss) const override;
  std::optional<bool> greater_is_better(const std::string& metric) const override;

 private:
  at::Tensor sums_;  // of the metrics, then pairs
};

}  // namespace convoy::tasks
