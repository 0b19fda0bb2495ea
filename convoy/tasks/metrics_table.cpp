#include "convoy/tasks/metrics_table.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "convoy/base/text.h"
#include "convoy/report/table.h"
#include "convoy/train/logging/console.h"
#include "convoy/train/scorer.h"

namespace convoy::tasks {

namespace {

using train::Metrics;

/// Metrics of recommended lists beside accuracy.
constexpr std::array<std::pair<const char*, const char*>, 5> kOfLists{
    {{"coverage", "Coverage"},
     {"novelty", "Novelty"},
     {"average_popularity", "Average popularity"},
     {"diversity", "Diversity"},
     {"serendipity", "Serendipity"}}};

std::string key_of(const std::string& metric, int64_t cutoff) {
  return fmt::format("eval_{}_at_{}", metric, cutoff);
}

/// Cut-offs of the NDCG metrics, ascending.
std::set<int64_t> cutoffs_of(const Metrics& metrics) {
  const std::string begin = "eval_ndcg_at_";
  std::set<int64_t> out;
  int64_t cutoff = 0;
  for (const auto& [key, value] : metrics) {
    if (key.starts_with(begin) && parse_number(key.substr(begin.size()), cutoff)) {
      out.insert(cutoff);
    }
  }
  return out;
}

std::optional<double> value_of(const Metrics& metrics, const std::string& key) {
  const auto found = metrics.find(key);
  return found == metrics.end() ? std::nullopt : std::optional(found->second);
}

/// Names of the baselines: popularity of eval_popularity_baseline_ndcg_at_10.
std::set<std::string> baselines_of(const Metrics& metrics) {
  std::set<std::string> out;
  for (const auto& [key, value] : metrics) {
    const auto at = key.find(train::kBaseline);
    if (key.starts_with("eval_") && at != std::string::npos) out.insert(key.substr(5, at - 5));
  }
  return out;
}

}  // namespace

std::string metrics_table(const Metrics& metrics) {
  const auto cutoffs = cutoffs_of(metrics);
  if (cutoffs.empty()) return "";
  report::Table table;
  table.column("", report::Align::kLeft);
  for (const int64_t k : cutoffs) table.column(fmt::format("@{}", k), report::Align::kLeft);
  const auto add = [&](const std::string& title, const std::string& metric) {
    std::vector<std::string> row{title};
    bool any = false;
    for (const int64_t k : cutoffs) {
      const auto key = key_of(metric, k);
      const auto value = value_of(metrics, key),
                 error = value_of(metrics, key + train::kStandardError);
      any = any || value;
      row.push_back(!value  ? "-"
                    : error ? fmt::format("{:.4f} +- {:.4f}", *value, *error)
                            : fmt::format("{:.4f}", *value));
    }
    if (any) table.row(row);
  };
  for (const auto& [name, title] : kRankingMetrics) add(title, name);
  for (const auto& baseline : baselines_of(metrics)) {
    for (const auto& [name, title] : kRankingMetrics) {
      add(fmt::format("{} of {}", title, baseline), baseline + train::kBaseline + name);
    }
  }
  for (const auto& [name, title] : kOfLists) add(title, name);
  return table.to_text();
}

std::string evaluation_text(const std::string& title, const Metrics& metrics) {
  const auto table = metrics_table(metrics);
  auto others = metrics;
  if (!table.empty()) {
    std::erase_if(
        others, [](const auto& metric) { return metric.first.find("_at_") != std::string::npos; });
  }
  auto text = fmt::format("{}: {}", title, train::metrics_text(others));
  if (table.find("+-") != std::string::npos) text += "; +- is one standard error";
  return wrap(text, 2) + "\n" + indented(table);
}

std::string indented(const std::string& text) {
  std::string out;
  for (const auto& line : split(text, '\n')) {
    if (!line.empty()) out += "  " + line + "\n";
  }
  return out;
}

}  // namespace convoy::tasks
