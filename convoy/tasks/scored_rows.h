#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/tasks/bootstrap.h"

namespace convoy::tasks {

/// Request of `convoy eval` for more than the metrics of an evaluation.
struct EvaluationDetails {
  bool lists = false;     ///< metrics of the recommended lists beside accuracy
  bool segments = false;  ///< accuracy by kinds of persons, sessions and items
  int64_t bootstrap = 0;  ///< samples of 95 % intervals; 0 = none
  int64_t seed = 0;       ///< of these
  bool compared = false;  ///< rows are kept, to compare them with another run's

  bool any() const { return lists || segments || compared || bootstrap > 0; }
};

/// Targets of an evaluation, in the order of the data, and the ranks that a model gave them.
struct ScoredRows {
  std::string run = "";
  std::string data = "";
  bool exclude_seen = false;
  std::vector<int64_t> top_ks = {};
  std::vector<uint64_t> keys = {};    ///< by row: equal where two preparations have one row
  std::vector<int64_t> persons = {};  ///< 0, 1, ... by row
  std::vector<int64_t> ranks = {};    ///< 1 = best; a great number: a miss

  /// NDCG, Recall and MRR at each cut-off: ndcg_at_5, ...
  std::vector<std::string> metrics() const;
  /// Scores of one rank in each of them.
  std::vector<double> scores(int64_t rank) const;
  Clusters clusters() const;
};

/// Table of the intervals of ScoredRows::metrics().
std::string intervals_table(const std::vector<Interval>& intervals, const ScoredRows& rows);

/// Two runs side by side on the same rows.
struct RunComparison {
  struct Metric {
    std::string name;
    double first = 0, second = 0;  ///< means
    double difference = 0;         ///< the second less the first
    double error = 0;              ///< standard error of that, over persons; NaN of one person
    std::optional<Interval> interval = {};
    int64_t better = 0, equal = 0, worse = 0;  ///< rows, for the second
  };

  std::string first, second;
  int64_t rows = 0, persons = 0;
  bool exclude_seen = false;
  std::vector<Metric> metrics = {};

  Json to_json() const;
  std::string to_text() const;
};

/// Compares two runs row by row, at the cut-offs of the first; `samples` of persons for intervals,
/// 0 = none. Throws UsageError where the rows, or what competes in them, differ.
RunComparison compare_rows(const ScoredRows& a, const ScoredRows& b, int64_t samples, int64_t seed);

}  // namespace convoy::tasks
