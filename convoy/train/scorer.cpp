#include "convoy/train/scorer.h"

#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::train {

bool judges_models(const std::string& name) {
  return !name.ends_with(kStandardError) && name.find(kBaseline) == std::string::npos &&
         !name.ends_with(kExcludeSeen) && !name.ends_with(kTargetTime);
}

std::string plain_metric(std::string name) {
  if (name.starts_with("eval_")) name.erase(0, 5);
  if (const auto at = name.find('@'); at != std::string::npos) name.replace(at, 1, "_at_");
  return name;
}

void check_best_metric(const std::string& metric, const MakeScorer& make_scorer) {
  if (metric.empty()) return;
  const auto wanted = plain_metric(metric);
  auto metrics = make_scorer ? make_scorer()->values("eval_", 0) : std::map<std::string, double>();
  metrics["eval_loss"] = 0;
  std::vector<std::string> known;
  for (const auto& [name, value] : metrics) {
    if (!judges_models(name.substr(5))) continue;
    known.push_back(name.substr(5));
    if (wanted == known.back()) return;
  }
  fail<UsageError>("train", "metric_for_best_model = {} is not among the metrics {}{}", metric,
                   join(known), did_you_mean(wanted, known));
}

}  // namespace convoy::train
