#pragma once

#include <cstdint>
#include <vector>

// Requests to streams of batches, and their results.
namespace convoy::data {

/// Layout of a step over ranks and micro-batches.
struct BatchLayout {
  int64_t world = 1;              ///< W, ranks that read different data
  int64_t rank = 0;               ///< r in [0, W)
  int64_t accumulation = 1;       ///< A, micro-batches of a rank in one step
  int64_t per_device_batch = 32;  ///< b, rows of a micro-batch

  /// Samples of a full step: A x W x b.
  int64_t step_samples() const { return accumulation * world * per_device_batch; }
};

/// Options that every stream of batches has.
struct StreamOptions {
  BatchLayout layout;
  uint64_t seed = 42;
  bool shuffle = true;                ///< false (evaluation): rows in the order of the file
  bool drop_last = false;             ///< leave out a last step that is not full
  bool every_rank_needs_rows = true;  ///< fewer rows than ranks is an error; false for evaluation
};

/// One step's data for one rank.
template <class Rows>
struct LoadedStep {
  int64_t s0 = 0;                   ///< first sample of the step's global batch
  int64_t end = 0;                  ///< one past its last sample; the position after the step
  std::vector<Rows> micro_batches;  ///< one for each micro-batch
};

/// Rows and micro-batches of a rank in one epoch.
struct RankShare {
  int64_t rows = 0;
  int64_t batches = 0;  ///< micro-batches, equal for all ranks
};

}  // namespace convoy::data
