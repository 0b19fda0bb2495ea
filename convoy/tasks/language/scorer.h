#pragma once

#include <ATen/core/Tensor.h>

#include "convoy/train/scorer.h"

namespace convoy::tasks {

/// `<prefix>accuracy`, the share of targets with the best score, and `<prefix>perplexity`, exp of
/// the loss; without perplexity, for labels of rows, the standard error of the accuracy.
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
