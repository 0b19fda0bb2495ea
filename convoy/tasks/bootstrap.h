#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace convoy::tasks {

/// Scores of rows in several metrics, summed over the rows that belong together, as those of one
/// person do.
class Clusters {
 public:
  explicit Clusters(int64_t num_metrics) : num_metrics_(num_metrics) {}

  /// Adds a row's scores to cluster `cluster`, one of 0, 1, ...
  void add(int64_t cluster, std::span<const double> scores);

  int64_t size() const { return std::ssize(rows_); }
  int64_t num_metrics() const { return num_metrics_; }
  int64_t num_rows() const;
  int64_t rows(int64_t cluster) const { return rows_[static_cast<size_t>(cluster)]; }
  std::span<const double> sums(int64_t cluster) const {
    return std::span(sums_).subspan(static_cast<size_t>(cluster * num_metrics_),
                                    static_cast<size_t>(num_metrics_));
  }
  /// Mean over the rows of each metric.
  std::vector<double> means() const;
  /// Standard errors of the means where rows of a cluster may go together: with one row each, the
  /// usual ones; NaN of one cluster.
  std::vector<double> standard_errors() const;

 private:
  int64_t num_metrics_;
  std::vector<double> sums_;
  std::vector<int64_t> rows_;
};

struct Interval {
  double low = 0, high = 0;
};

/// 95 % percentile intervals of the means of each metric: over `samples` samples of as many
/// clusters, drawn with replacement by `seed`. Percentiles are interpolated as numpy's.
std::vector<Interval> bootstrap(const Clusters& clusters, int64_t samples, int64_t seed);

}  // namespace convoy::tasks
