#include "convoy/train/memory_use.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_map>

#include "convoy/comm/device.h"

namespace convoy::train {

namespace {

using parallel::MemoryUse;

struct Kind {
  const char* name;
  int64_t parallel::MemoryUse::* bytes;
};
constexpr Kind kKinds[] = {{"parameters", &parallel::MemoryUse::parameters},
                           {"gradients", &parallel::MemoryUse::gradients},
                           {"optimizer", &parallel::MemoryUse::optimizer},
                           {"gathered", &parallel::MemoryUse::gathered},
                           {"activations", &parallel::MemoryUse::activations},
                           {"buffers", &parallel::MemoryUse::buffers},
                           {"offloaded", &parallel::MemoryUse::offloaded}};

at::Device device_of(parallel::Replica& replica) {
  return replica.flat().fp32().device();
}

/// Bytes of a replica. Weights and moments that replicas of this process share count for the first.
int64_t own_bytes(parallel::Replica& replica, const MemoryUse& use) {
  // Replicas that share weights have all of them, and the moments.
  const bool lends =
      !replica.flat().layout().options().shares_weights || replica.groups().shard.rank() == 0;
  return use.sum() - (lends ? 0 : use.parameters + use.optimizer - replica.row_bytes());
}

/// Memory of the replicas that share a GPU.
struct OnDevice {
  void add(parallel::Replica& replica, const MemoryUse& use) {
    known += own_bytes(replica, use);
    ++replicas;
  }
  int64_t passing_bytes(at::Device device) const {
    return std::max<int64_t>(0, comm::peak_device_bytes(device) - known) / replicas;
  }

  int64_t known = 0;
  int64_t replicas = 0;
};

}  // namespace

std::vector<std::pair<std::string, int64_t>> kinds_of(const MemoryUse& use) {
  std::vector<std::pair<std::string, int64_t>> out;
  for (const auto& kind : kKinds) out.emplace_back(kind.name, use.*kind.bytes);
  return out;
}

std::vector<MemoryUse> take_memory_use(parallel::Strategy& strategy) {
  const auto replicas = strategy.replicas();
  std::unordered_map<at::Device, OnDevice> gpus;
  std::vector<MemoryUse> uses;
  for (auto* replica : replicas) {
    uses.push_back(replica->memory());
    gpus[device_of(*replica)].add(*replica, uses.back());
  }
  std::vector<MemoryUse> stages(replicas[0]->plan().stages.size());
  for (size_t r = 0; r < replicas.size(); ++r) {
    const auto device = device_of(*replicas[r]);
    uses[r].activations = device.is_cpu() ? strategy.take_passing_bytes(static_cast<int>(r))
                                          : gpus.at(device).passing_bytes(device);
    const int stage = replicas[r]->groups().mesh.place(parallel::Axis::Pipeline);
    auto& most = stages.at(static_cast<size_t>(stage));
    most = largest(most, uses[r]);
  }
  return stages;
}

int64_t kept_bytes(parallel::Strategy& strategy) {
  int64_t out = 0;
  for (auto* replica : strategy.replicas()) {
    auto use = replica->memory();
    use.gathered = use.buffers = 0;
    for (const auto& buffer : replica->buffers()) {
      use.buffers += static_cast<int64_t>(buffer.tensor.nbytes());
    }
    out += own_bytes(*replica, use);
  }
  return out;
}

MemoryUse largest(const MemoryUse& a, const MemoryUse& b) {
  auto out = a;
  for (const auto& kind : kKinds) out.*kind.bytes = std::max(a.*kind.bytes, b.*kind.bytes);
  return out;
}

MemoryUse largest(const std::vector<MemoryUse>& uses) {
  MemoryUse out;
  for (const auto& use : uses) out = largest(out, use);
  return out;
}

std::vector<MemoryUse> largest(const std::vector<MemoryUse>& uses, const comm::Group& group) {
  std::vector<int64_t> bytes;
  for (const auto& use : uses) {
    for (const auto& kind : kKinds) bytes.push_back(use.*kind.bytes);
  }
  auto all = at::tensor(bytes, at::kLong);
  group.all_reduce(all, comm::ReduceOp::Max, "reduce memory use");
  std::vector<MemoryUse> out(uses.size());
  const auto* next = all.const_data_ptr<int64_t>();
  for (auto& use : out) {
    for (const auto& kind : kKinds) use.*kind.bytes = *next++;
  }
  return out;
}

}  // namespace convoy::train
