#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/report/table.h"

namespace convoy::bench {

/// One training of the same job under one strategy. A number that is not known is not finite.
struct StrategyRow {
  std::string strategy;
  int ranks = 1;
  int threads = 1;            ///< per rank
  int64_t micro_batches = 0;  ///< of a pipeline's step; 0: it is none
  double learning_rate = 0;   ///< rate, if several are compared; 0: the run's
  double seconds = 0;
  double samples_per_second = 0;
  double speedup = std::numeric_limits<double>::quiet_NaN();     ///< against one device
  double efficiency = std::numeric_limits<double>::quiet_NaN();  ///< speed-up over ranks, 1 is full
  double collectives_per_step = 0;
  double bytes_per_step = 0;
  int64_t peak_memory_bytes_per_rank = 0;
  int64_t device_memory_bytes_per_rank = 0;  ///< most that tensors took on a GPU; 0 without one
  double eval_seconds = std::numeric_limits<double>::quiet_NaN();  ///< of the last evaluation
  double loss = std::numeric_limits<double>::quiet_NaN();          ///< at the end
  std::map<std::string, double> metrics;
  std::string failure = {};  ///< reason why there are no numbers; "" where it trained

  /// Name of the strategy in pictures.
  std::string label() const;
};

/// Fills speedup and efficiency from samples per second, against the row "single" with the fewest
/// ranks, else the first row; of the same learning rate each, and of those that did not fail.
void fill_speedups(std::vector<StrategyRow>& rows);

/// Returns the rows as people read them.
report::Table strategies_table(const std::vector<StrategyRow>& rows);

/// Returns the rows as programs read them: a list of objects, numbers that are not known being
/// null.
Json strategies_json(const std::vector<StrategyRow>& rows);

/// Samples per second by ranks and strategy with the speed-up above, and below it what was learned.
std::string strategies_svg(const std::vector<StrategyRow>& rows, const std::string& title,
                           const std::string& subtitle = "");

/// Metric of the model whose name ends with `name` ("ndcg@10" finds "eval_NDCG@10", no baseline's);
/// nan when there is none.
double find_metric(const std::map<std::string, double>& metrics, const std::string& name);

}  // namespace convoy::bench
