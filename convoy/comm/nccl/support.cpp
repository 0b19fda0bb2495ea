#include "convoy/comm/nccl/support.h"

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

std::vector<NcclSupport> gather_nccl_support(const MeetingPoint& point,
                                             const c10::intrusive_ptr<c10d::Store>& store,
                                             at::Device device) {
  std::string missing = "it computes on the CPU";
  if (!device.is_cpu()) has_nccl(&missing);
  const auto key = [](const char* what, int rank) { return fmt::format("{}/{}", what, rank); };
  store->set(key("nccl", point.rank), missing);
  store->set(key("gpu", point.rank), identity(device));
  std::vector<NcclSupport> ranks;
  for (int rank = 0; rank < point.size; ++rank) {
    ranks.push_back({store->get_to_str(key("nccl", rank)), store->get_to_str(key("gpu", rank))});
  }
  return ranks;
}

}  // namespace convoy::comm
