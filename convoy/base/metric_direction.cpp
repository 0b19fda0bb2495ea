#include "convoy/base/metric_direction.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <string>

namespace convoy {

namespace {

bool ends_with_any(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(),
                     [name](std::string_view end) { return name.ends_with(end); });
}

std::string_view without_cutoff(std::string_view metric) {
  constexpr std::string_view kAt = "_at_";
  const auto at = metric.rfind(kAt);
  if (at == std::string_view::npos) return metric;
  const auto cutoff = metric.substr(at + kAt.size());
  const bool is_number = !cutoff.empty() && cutoff.find_first_not_of("0123456789") == cutoff.npos;
  return is_number ? metric.substr(0, at) : metric;
}

}  // namespace

std::optional<bool> greater_is_better(std::string_view metric) {
  std::string name(without_cutoff(metric));
  for (auto& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (ends_with_any(name, {"loss", "mse", "perplexity"})) return false;
  if (ends_with_any(name, {"ndcg", "recall", "precision", "mrr", "accuracy", "f1", "auc"})) {
    return true;
  }
  return std::nullopt;
}

}  // namespace convoy
