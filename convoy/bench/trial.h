#pragma once

#include <string>
#include <vector>

#include "convoy/bench/strategies.h"

namespace convoy::bench {

// Layers are shared out: over all ranks; tokens with them; in pairs that share out the data; in
// pairs that are the stages of a pipeline; two stages of pairs, as often as there are ranks, with
// ZeRO 1. Or positions of rows are, over all ranks.
inline constexpr const char *kTensor = "tp", *kSequence = "tp-sp", *kDataTensor = "dp-tp",
                            *kPipelineTensor = "pp-tp", *k3d = "3d", *kContext = "cp";

/// One training of a comparison.
struct Trial {
  std::string strategy;
  int ranks = 1;
  bool slow_link = false;
  int64_t chunks = 0;              ///< micro-batches of a pipeline; 0: some for each stage
  std::string learning_rate = {};  ///< "" = the run's

  std::string name() const;
  /// Stage of ZeRO.
  int zero() const;
  bool is_hybrid() const;
  bool is_offloaded() const;
  /// Schedule of a pipeline; else empty.
  std::string schedule() const;
  bool is_pipeline() const { return !schedule().empty(); }
  bool has_virtual_stages() const;
  bool is_2d() const;
  /// Ranks that share out layers.
  int num_tensor_ranks() const;
  /// Ranks that share out positions.
  int num_context_ranks() const { return strategy == kContext ? ranks : 1; }
  int num_stages() const;
  /// Ranks, or groups of ranks, that compute different rows.
  int num_shares() const { return ranks / num_stages() / num_tensor_ranks() / num_context_ranks(); }
  bool has_processes() const;
};

/// The trainings that are asked for: each strategy with each number of ranks, and all of them with
/// each learning rate. Throws UsageError on combinations that cannot run.
std::vector<Trial> trials(const StrategiesOptions& options);

}  // namespace convoy::bench
