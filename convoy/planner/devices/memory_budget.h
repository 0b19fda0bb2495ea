#pragma once

#include <cstdint>
#include <string>

#include "convoy/comm/group.h"
#include "convoy/planner/time/predict.h"

namespace convoy::planner {

/// Relative error of memory estimates: on processors, whose kernels were run (docs/estimate.md and
/// docs/planning.md have the measurements), and on other devices.
inline constexpr double kMemorySpread = 0.02, kOtherDevicesMemorySpread = 0.1;

/// Memory that the tensors of a rank may take.
struct MemoryBudget {
  int64_t bytes = 0;
  double spread = kMemorySpread;
  std::string text = {};  ///< "7.6 GiB of this host for each of 2 ranks"

  Fit fit(int64_t needed) const { return fit_of(needed, bytes, spread); }
  /// Bytes that fit for sure.
  int64_t sure_bytes() const {
    return static_cast<int64_t>(static_cast<double>(bytes) / (1 + spread));
  }
};

/// Memory for a rank's tensors on a device of a kind that planner::usual_cluster knows or, where it
/// is "", on this host, which `num_ranks` ranks share. At most `device_memory` bytes, where that is
/// not 0.
MemoryBudget room_of_rank(const std::string& device, int num_ranks, int64_t device_memory);

/// Share of this rank of the memory that is free now on its GPU. All ranks of `group`, which
/// include those of this host, call this.
MemoryBudget room_of_gpu(at::Device gpu, const comm::Group& group, int64_t device_memory);

}  // namespace convoy::planner
