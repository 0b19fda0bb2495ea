#pragma once

#include <map>
#include <string>
#include <vector>

#include "convoy/bench/strategies.h"

namespace convoy::bench {

/// One training of a comparison.
struct ComparedTraining {
  std::string strategy;
  int ranks = 1;
  bool slow_link = false;
  int64_t chunks = 0;              ///< micro-batches of a pipeline; 0: some for each stage
  std::string learning_rate = {};  ///< "" = the run's

  std::string name() const;
  /// Options of `[parallel]` that spread the training as its strategy says, by their names. Others
  /// are as they are by default.
  std::map<std::string, std::string> options() const;
  /// Value of an option that is a number; 1 by default.
  int number(const char* option) const;
  int num_stages() const { return number("pipeline_parallel_size"); }
  int num_tensor_ranks() const { return number("tensor_parallel_size"); }
  /// Ranks, or groups of ranks, that compute different rows.
  int num_shares() const {
    return ranks / num_stages() / num_tensor_ranks() / number("context_parallel_size");
  }
  /// Schedule that names the strategy; else empty.
  std::string schedule() const;
  bool is_pipeline() const { return !schedule().empty(); }
  bool has_virtual_stages() const;
  bool has_processes() const;
};

/// Returns the trainings that are asked for: each strategy with each number of ranks, and all of
/// them with each learning rate. Throws UsageError on combinations that cannot run.
std::vector<ComparedTraining> trials(const StrategiesOptions& options);

}  // namespace convoy::bench
