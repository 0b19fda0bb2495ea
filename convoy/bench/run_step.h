#pragma once

#include <string>
#include <vector>

namespace convoy::bench {

/// Measurements of `convoy bench step`, in fresh processes.
struct MeasuredStep {
  double seconds = 0;            ///< the median
  double loss = 0;               ///< of the last step
  double peak_memory_bytes = 0;  ///< of a process
  double memory_bytes = 0;       ///< of the tensors of the rank with most, as it counted them
  double samples_per_second = 0, tokens_per_second = 0;  ///< over all ranks
  std::string failure;  ///< its message where it did not end well; "" else
};

/// Times steps of a run on so many ranks of this host; `config` may be "", `flags` are options of
/// the run.
MeasuredStep run_step(const std::string& config, const std::vector<std::string>& flags,
                      int num_ranks, int64_t steps);

}  // namespace convoy::bench
