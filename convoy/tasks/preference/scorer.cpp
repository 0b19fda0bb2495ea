#include "convoy/tasks/preference/scorer.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/comm/to_host.h"
#include "convoy/nn/losses/preference.h"

namespace convoy::tasks {

PreferenceScorer::PreferenceScorer()
    : sums_(at::zeros({std::ssize(nn::preference_metrics()) + 1}, at::kDouble)) {}

void PreferenceScorer::add(const nn::Bundle& out) {
  const auto last = sums_.size(0) - 1;
  sums_.narrow(0, 0, last) += comm::download(out.at("metrics"));
  sums_[last] += comm::item<double>(out.at("count"));
}

void PreferenceScorer::reduce(const comm::Group& group) {
  group.all_reduce(sums_, comm::ReduceOp::Sum, "reduce metrics");
}

std::map<std::string, double> PreferenceScorer::values(const std::string& prefix,
                                                       double /*loss*/) const {
  const auto& names = nn::preference_metrics();
  const auto* sums = sums_.const_data_ptr<double>();
  const double pairs = std::max(1.0, sums[names.size()]);
  std::map<std::string, double> out;
  for (size_t i = 0; i < names.size(); ++i) out[prefix + names[i]] = sums[i] / pairs;
  return out;
}

std::optional<bool> PreferenceScorer::greater_is_better(const std::string& metric) const {
  if (metric == "rewards/accuracies" || metric == "rewards/margins") return true;
  return std::nullopt;
}

}  // namespace convoy::tasks
