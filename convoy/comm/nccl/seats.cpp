#include "convoy/comm/nccl/seats.h"

#include <fmt/format.h>

#include "convoy/comm/device.h"
#include "convoy/comm/nccl/nccl_engine.h"

namespace convoy::comm {

std::string why_not_nccl(const std::vector<NcclSeat>& seats) {
  for (size_t r = 0; r < seats.size(); ++r) {
    if (!seats[r].missing.empty()) return fmt::format("rank {}: {}", r, seats[r].missing);
  }
  for (size_t r = 0; r < seats.size(); ++r) {
    for (size_t before = 0; before < r; ++before) {
      if (seats[r].gpu.empty() || seats[before].gpu != seats[r].gpu) continue;
      return fmt::format("ranks {} and {} share a GPU", before, r);
    }
  }
  return "";
}

std::vector<NcclSeat> gather_nccl_seats(const MeetingPoint& point,
                                        const c10::intrusive_ptr<c10d::Store>& store,
                                        at::Device device) {
  std::string missing = "it computes on the CPU";
  if (!device.is_cpu()) has_nccl(&missing);
  const auto key = [](const char* what, int rank) { return fmt::format("{}/{}", what, rank); };
  store->set(key("nccl", point.rank), missing);
  store->set(key("gpu", point.rank), identity(device));
  std::vector<NcclSeat> seats;
  for (int rank = 0; rank < point.size; ++rank) {
    seats.push_back({store->get_to_str(key("nccl", rank)), store->get_to_str(key("gpu", rank))});
  }
  return seats;
}

}  // namespace convoy::comm
