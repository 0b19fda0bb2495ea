#include "convoy/tasks/language/scorer.h"
#include "convoy/comm/to_host.h"

#include <ATen/ATen.h>

#include <cmath>

namespace convoy::tasks {

LanguageScorer::LanguageScorer(bool perplexity)
    : perplexity_(perplexity), sums_(at::zeros({2}, at::kLong)) {}

void LanguageScorer::add(const nn::Bundle& out) {
  auto* sums = sums_.data_ptr<int64_t>();
  sums[0] += comm::item<int64_t>(out.at("correct"));
  sums[1] += comm::item<int64_t>(out.at("count"));
}

void LanguageScorer::reduce(const comm::Group& group) {
  group.all_reduce(sums_, comm::ReduceOp::Sum, "reduce metrics");
}

std::map<std::string, double> LanguageScorer::values(const std::string& prefix, double loss) const {
  const auto* sums = sums_.data_ptr<int64_t>();
  const auto targets = static_cast<double>(std::max<int64_t>(1, sums[1]));
  const double accuracy = static_cast<double>(sums[0]) / targets;
  std::map<std::string, double> out{{prefix + "accuracy", accuracy}};
  if (perplexity_) {
    out[prefix + "perplexity"] = std::exp(loss);
  } else {  // targets are rows, which are independent of each other
    out[prefix + "accuracy" + train::kStandardError] =
        std::sqrt(accuracy * (1 - accuracy) / targets);
  }
  return out;
}

}  // namespace convoy::tasks
