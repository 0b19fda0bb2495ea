#pragma once

#include <ATen/core/Tensor.h>

#include "convoy/train/scorer.h"

namespace convoy::tasks {

/// `<prefix>perplexity`, exp of the loss, where it means something, and `<prefix>accuracy`, the
/// part of the targets that had the best score.
class LanguageScorer : public train::Scorer {
 public:
  explicit LanguageScorer(bool perplexity = true);
  void add(const nn::Bundle& out) override;
  void reduce(const comm::Group& group) override;
  std::map<std::string, double> values(const std::string& prefix, double loss) const override;

 private:
  bool perplexity_;
  at::Tensor sums_;  // right ones, targets
};

}  // namespace convoy::tasks
