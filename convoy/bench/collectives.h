#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "convoy/bench/collectives_table.h"

namespace convoy::bench {

struct CollectivesOptions {
  std::vector<std::string> engines;      ///< of comm::engine_names(), or threads
  std::vector<std::string> collectives;  ///< of comm::measurable_collectives()
  std::vector<std::string> dtypes{"fp32"};
  std::vector<std::string> sizes{"1K", "16K", "256K", "1M", "4M", "16M", "64M"};
  std::vector<int> ranks{2};
  std::string device = "cpu";
  double seconds_per_cell = 0.3;

  /// Throws UsageError on unknown dtypes, sizes and numbers of ranks.
  void check() const;
};

/// Called with the measurement that is under way, and with "" when all are over.
using Say = std::function<void(const std::string&)>;

/// Times the collectives among the ranks that a launcher started; this process is one of them, and
/// the main one's `say` is called.
std::vector<CollectiveTime> time_ranks(const CollectivesOptions& options, const Say& say);

/// Starts this many ranks, which measure and leave their times in a file; returns the exit code.
using StartRanks = std::function<int(int ranks, const std::filesystem::path& times)>;

/// Times a copy, then the collectives for each number of ranks: processes that `start` starts, and
/// threads of this one. Throws Error where the ranks fail.
std::vector<CollectiveTime> time_host(const CollectivesOptions& options, const StartRanks& start,
                                      const Say& say);

}  // namespace convoy::bench
