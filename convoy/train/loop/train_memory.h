#pragma once

#include "convoy/train/loop/run_context.h"

namespace convoy::train {

/// Peak memory of each kind that a training took so far, by stage.
class TrainMemory {
 public:
  explicit TrainMemory(const RunContext& run) : run_(run) {}

  /// Forgets what the start took.
  void begin();
  /// Memory of this process's largest rank since the last call.
  parallel::MemoryUse note();
  /// Peak bytes of tensors on a GPU of this process so far; 0 without one.
  int64_t peak_device_bytes() const;
  /// Adds the largest values over all ranks to a training's results. Collective.
  void add_to(Metrics& metrics);

 private:
  const RunContext& run_;
  std::vector<parallel::MemoryUse> most_;
};

}  // namespace convoy::train
