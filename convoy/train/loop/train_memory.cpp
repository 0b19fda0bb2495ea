#include "convoy/train/loop/train_memory.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"
#include "convoy/machine/resident.h"
#include "convoy/train/memory_use.h"

namespace convoy::train {

void TrainMemory::begin() {
  take_memory_use(*run_.strategy);
  most_.clear();
}

parallel::MemoryUse TrainMemory::note() {
  const auto now = take_memory_use(*run_.strategy);
  most_.resize(now.size());
  for (size_t s = 0; s < now.size(); ++s) most_[s] = largest(most_[s], now[s]);
  return largest(now);
}

int64_t TrainMemory::peak_device_bytes() const {
  int64_t most = 0;
  for (const auto& device : run_.job.devices) {
    most = std::max(most, comm::peak_device_bytes(device));
  }
  return most;
}

void TrainMemory::add_to(Metrics& metrics) {
  const auto& world = run_.job.world();
  auto peak = at::tensor({machine::peak_resident_bytes(), peak_device_bytes()}, at::kLong);
  world.all_reduce(peak, comm::ReduceOp::Max, "reduce peak memory");
  metrics["peak_memory_bytes_per_rank"] = comm::item<double>(peak[0]);
  const auto on_device = comm::item<double>(peak[1]);
  if (on_device > 0) metrics["peak_device_memory_bytes_per_rank"] = on_device;
  note();
  const auto stages = largest(most_, world);
  for (const auto& [kind, bytes] : kinds_of(largest(stages))) {
    metrics["memory_" + kind + "_bytes_per_rank"] = static_cast<double>(bytes);
  }
  int64_t most = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    most = std::max(most, stages[s].sum());
    if (stages.size() == 1) continue;
    metrics[fmt::format("memory_bytes_of_stage_{}", s)] = static_cast<double>(stages[s].sum());
  }
  metrics["memory_bytes_per_rank"] = static_cast<double>(most);
}

}  // namespace convoy::train
