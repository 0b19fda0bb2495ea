#include "convoy/tasks/scored_rows.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/report/table.h"
#include "convoy/tasks/metrics_table.h"
#include "convoy/train/scorer.h"

namespace convoy::tasks {

namespace {

/// Title of a metric: "NDCG@10" of ndcg_at_10.
std::string title_of(const std::string& metric) {
  const auto at = metric.find("_at_");
  for (const auto& [name, title] : kRankingMetrics) {
    if (metric.substr(0, at) == name) return fmt::format("{}@{}", title, metric.substr(at + 4));
  }
  return metric;
}

std::string interval_text(const Interval& interval) {
  return fmt::format("{:.4f} to {:.4f}", interval.low, interval.high);
}

int64_t num_persons(const ScoredRows& rows) {
  return std::ssize(std::set<int64_t>(rows.persons.begin(), rows.persons.end()));
}

void check_comparable(const ScoredRows& a, const ScoredRows& b) {
  if (a.exclude_seen != b.exclude_seen) {
    fail<UsageError>("tasks",
                     "{} ranks among {} items and {} among {}: their metrics do not compare; try "
                     "--exclude_seen true or false for both",
                     a.run, a.exclude_seen ? "unseen" : "all", b.run,
                     b.exclude_seen ? "unseen" : "all");
  }
  if (a.keys == b.keys) return;
  const bool as_many = a.keys.size() == b.keys.size();
  fail<UsageError>("tasks",
                   "{} is evaluated on {} of {} and {} on {} of {}{}; expected the same rows; try "
                   "--data FOLDER for both",
                   a.run, plural(std::ssize(a.keys), "row"), a.data, b.run,
                   plural(std::ssize(b.keys), "row"), b.data,
                   as_many ? ", with other targets or persons" : "");
}

}  // namespace

std::vector<std::string> ScoredRows::metrics() const {
  std::vector<std::string> out;
  for (const auto& [name, title] : kRankingMetrics) {
    for (const int64_t k : top_ks) out.push_back(fmt::format("{}_at_{}", name, k));
  }
  return out;
}

std::vector<double> ScoredRows::scores(int64_t rank) const {
  const auto place = static_cast<double>(rank);
  std::vector<double> out;
  for (const double score : {1 / std::log2(place + 1), 1.0, 1 / place}) {
    for (const int64_t k : top_ks) out.push_back(rank <= k ? score : 0);
  }
  return out;
}

Clusters ScoredRows::clusters() const {
  Clusters out(std::ssize(metrics()));
  for (size_t i = 0; i < ranks.size(); ++i) out.add(persons[i], scores(ranks[i]));
  return out;
}

std::string intervals_table(const std::vector<Interval>& intervals, const ScoredRows& rows) {
  report::Table table;
  table.column("95 % intervals", report::Align::kLeft);
  for (const int64_t k : rows.top_ks) table.column(fmt::format("@{}", k), report::Align::kLeft);
  auto interval = intervals.begin();
  for (const auto& [name, title] : kRankingMetrics) {
    std::vector<std::string> texts{title};
    while (texts.size() <= rows.top_ks.size()) texts.push_back(interval_text(*interval++));
    table.row(std::move(texts));
  }
  return table.to_text();
}

RunComparison compare_rows(const ScoredRows& a, const ScoredRows& b, int64_t samples,
                           int64_t seed) {
  check_comparable(a, b);
  const auto names = a.metrics();
  Clusters differences(std::ssize(names));
  RunComparison out{.first = a.run,
                    .second = b.run,
                    .rows = std::ssize(a.ranks),
                    .persons = num_persons(a),
                    .exclude_seen = a.exclude_seen};
  for (const auto& name : names) out.metrics.push_back({.name = name});
  for (size_t i = 0; i < a.ranks.size(); ++i) {
    const auto before = a.scores(a.ranks[i]);
    auto scores = a.scores(b.ranks[i]);  // at the same cut-offs
    for (size_t m = 0; m < scores.size(); ++m) {
      auto& metric = out.metrics[m];
      ++(scores[m] > before[m]    ? metric.better
         : scores[m] == before[m] ? metric.equal
                                  : metric.worse);
      scores[m] -= before[m];
    }
    differences.add(a.persons[i], scores);
  }
  auto second = b;
  second.top_ks = a.top_ks;
  const auto mean_a = a.clusters().means(), mean_b = second.clusters().means();
  const auto mean = differences.means(), errors = differences.standard_errors();
  std::vector<Interval> intervals;
  if (samples > 0) intervals = bootstrap(differences, samples, seed);
  for (size_t m = 0; m < names.size(); ++m) {
    auto& metric = out.metrics[m];
    metric.first = mean_a[m];
    metric.second = mean_b[m];
    metric.difference = mean[m];
    metric.error = errors[m];
    if (samples > 0) metric.interval = intervals[m];
  }
  return out;
}

Json RunComparison::to_json() const {
  Json of_metrics = Json::object();
  for (const auto& metric : metrics) {
    Json entry{{"first", metric.first},           {"second", metric.second},
               {"difference", metric.difference}, {"better", metric.better},
               {"equal", metric.equal},           {"worse", metric.worse}};
    if (std::isfinite(metric.error)) {
      entry[std::string("difference") + train::kStandardError] = metric.error;
    }
    if (metric.interval) entry["interval"] = {metric.interval->low, metric.interval->high};
    of_metrics[metric.name] = std::move(entry);
  }
  return {{"first", first},     {"second", second},      {"rows", rows},
          {"persons", persons}, {"metrics", of_metrics}, {"exclude_seen", exclude_seen}};
}

std::string RunComparison::to_text() const {
  const bool intervals = !metrics.empty() && metrics.front().interval;
  report::Table table;
  table.column("", report::Align::kLeft).column("first").column("second");
  table.column("difference", report::Align::kLeft);
  if (intervals) table.column("95 % interval", report::Align::kLeft);
  table.column("better").column("equal").column("worse");
  for (const auto& metric : metrics) {
    std::vector<std::string> texts{title_of(metric.name), fmt::format("{:.4f}", metric.first),
                                   fmt::format("{:.4f}", metric.second),
                                   fmt::format("{:+.4f}", metric.difference)};
    if (std::isfinite(metric.error)) texts.back() += fmt::format(" +- {:.4f}", metric.error);
    if (intervals) texts.push_back(interval_text(*metric.interval));
    for (const int64_t count : {metric.better, metric.equal, metric.worse}) {
      texts.push_back(human_count(count));
    }
    table.row(std::move(texts));
  }
  auto out = fmt::format("first: {}\nsecond: {}\n", first, second);
  out += wrap(fmt::format("{} of {}, the same for both, ranked among {} items; +- is one standard "
                          "error of the paired difference, over persons; better, equal and worse "
                          "count rows, for the second",
                          plural(rows, "row"), plural(persons, "person"),
                          exclude_seen ? "unseen" : "all"),
              2) +
         "\n";
  return out + indented(table.to_text());
}

}  // namespace convoy::tasks
