#include "convoy/tasks/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "convoy/base/random.h"

namespace convoy::tasks {

namespace {

/// Quantile of sorted values, interpolated between the two nearest.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

}  // namespace

void Clusters::add(int64_t cluster, std::span<const double> scores) {
  const auto metrics = static_cast<size_t>(num_metrics_), at = static_cast<size_t>(cluster);
  if (cluster >= size()) {
    rows_.resize(at + 1, 0);
    sums_.resize((at + 1) * metrics, 0);
  }
  ++rows_[at];
  for (size_t m = 0; m < metrics; ++m) sums_[at * metrics + m] += scores[m];
}

int64_t Clusters::num_rows() const {
  return std::accumulate(rows_.begin(), rows_.end(), int64_t{0});
}

std::vector<double> Clusters::means() const {
  std::vector<double> out(static_cast<size_t>(num_metrics_), 0);
  for (int64_t c = 0; c < size(); ++c) {
    for (size_t m = 0; m < out.size(); ++m) out[m] += sums(c)[m];
  }
  for (double& sum : out) sum /= static_cast<double>(num_rows());
  return out;
}

std::vector<double> Clusters::standard_errors() const {
  const auto mean = means();
  const auto number = static_cast<double>(size()), all = static_cast<double>(num_rows());
  std::vector<double> out(mean.size(), std::numeric_limits<double>::quiet_NaN());
  if (size() < 2) return out;
  for (size_t m = 0; m < out.size(); ++m) {
    double squares = 0;
    for (int64_t c = 0; c < size(); ++c) {
      const double off = sums(c)[m] - mean[m] * static_cast<double>(rows(c));
      squares += off * off;
    }
    out[m] = std::sqrt(squares * number / (number - 1)) / all;
  }
  return out;
}

std::vector<Interval> bootstrap(const Clusters& clusters, int64_t samples, int64_t seed) {
  constexpr double kLow = 0.025, kHigh = 0.975;
  const auto metrics = static_cast<size_t>(clusters.num_metrics());
  const auto number = static_cast<double>(clusters.size());
  std::vector<std::vector<double>> means(metrics);
  std::vector<double> sums(metrics);
  for (int64_t sample = 0; sample < samples; ++sample) {
    const auto key = hash_combine(static_cast<uint64_t>(seed), static_cast<uint64_t>(sample));
    std::ranges::fill(sums, 0);
    int64_t rows = 0;
    for (int64_t i = 0; i < clusters.size(); ++i) {
      const auto drawn = static_cast<int64_t>(uniform01(key, static_cast<uint64_t>(i)) * number);
      const auto own = clusters.sums(drawn);
      rows += clusters.rows(drawn);
      for (size_t m = 0; m < metrics; ++m) sums[m] += own[m];
    }
    for (size_t m = 0; m < metrics; ++m) means[m].push_back(sums[m] / static_cast<double>(rows));
  }
  std::vector<Interval> out;
  for (auto& values : means) {
    std::ranges::sort(values);
    out.push_back({quantile(values, kLow), quantile(values, kHigh)});
  }
  return out;
}

}  // namespace convoy::tasks
