#include "convoy/train/scorer.h"

#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::train {

void check_best_metric(const std::string& metric, const MakeScorer& make_scorer) {
  auto wanted = metric;
  if (wanted.empty()) return;
  if (auto at = wanted.find('@'); at != std::string::npos) wanted.replace(at, 1, "_at_");
  auto metrics = make_scorer ? make_scorer()->values("eval_", 0) : std::map<std::string, double>();
  metrics["eval_loss"] = 0;
  std::vector<std::string> known;
  for (const auto& [name, value] : metrics) {
    known.push_back(name.substr(5));
    if (wanted == name || wanted == known.back()) return;
  }
  fail<UsageError>("train", "metric_for_best_model = {} is not among the metrics {}{}", metric,
                   join(known), did_you_mean(wanted, known));
}

}  // namespace convoy::train
