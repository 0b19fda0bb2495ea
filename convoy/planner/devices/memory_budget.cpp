#include "convoy/planner/devices/memory_budget.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "convoy/base/text.h"
#include "convoy/planner/devices/these_gpus.h"
#include "convoy/planner/devices/this_host.h"
#include "convoy/planner/time/cluster.h"

namespace convoy::planner {

namespace {

/// Returns the budget, or the run's limit where that is smaller.
MemoryBudget limited(MemoryBudget room, int64_t device_memory) {
  if (device_memory > 0 && device_memory < room.bytes) {
    room.bytes = device_memory;
    room.text = fmt::format("device_memory = {}", human_bytes(device_memory));
  }
  return room;
}

}  // namespace

MemoryBudget room_of_rank(const std::string& device, int num_ranks, int64_t device_memory) {
  const bool here = device.empty();
  const auto cluster = here ? processors(num_ranks) : usual_cluster(device, num_ranks);
  MemoryBudget out{
      .bytes = std::max<int64_t>(0, cluster.device.memory_bytes - cluster.reserved_bytes),
      .spread = here ? kMemorySpread : kOtherDevicesMemorySpread};
  out.text =
      fmt::format("{} of {}", human_bytes(out.bytes),
                  !here            ? "one " + device
                  : num_ranks == 1 ? "this host"
                                   : fmt::format("this host for each of {} ranks", num_ranks));
  return limited(std::move(out), device_memory);
}

MemoryBudget room_of_gpu(at::Device gpu, const comm::Group& group, int64_t device_memory) {
  MemoryBudget out{.bytes = free_for_tensors(gpu, group), .spread = kOtherDevicesMemorySpread};
  out.text = fmt::format("{} that are free on this GPU", human_bytes(out.bytes));
  return limited(std::move(out), device_memory);
}

}  // namespace convoy::planner
