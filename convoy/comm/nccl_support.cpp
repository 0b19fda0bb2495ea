#include "convoy/comm/nccl_support.h"

#include <fmt/format.h>

#include "convoy/comm/device.h"
#include "convoy/comm/nccl/nccl_engine.h"

namespace convoy::comm {

std::string why_not_nccl(const std::vector<NcclSupport>& ranks) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (!ranks[r].missing.empty()) return fmt::format("rank {}: {}", r, ranks[r].missing);
  }
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (size_t before = 0; before < r; ++before) {
      if (ranks[r].gpu.empty() || ranks[before].gpu != ranks[r].gpu) continue;
      return fmt::format("ranks {} and {} share a GPU", before, r);
    }
  }
  return "";
}

NcclSupport own_nccl_support(at::Device device) {
  std::string missing = "it computes on the CPU";
  if (!device.is_cpu()) has_nccl(&missing);
  return {missing, identity(device)};
}

}  // namespace convoy::comm
