#include "convoy/train/setup/memory_use.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/base/tensor_memory.h"
#include "convoy/comm/device.h"

namespace convoy::train {

namespace {

using schedule::MemoryUse;

struct Kind {
  const char* name;
  int64_t schedule::MemoryUse::* bytes;
};
constexpr Kind kKinds[] = {{"parameters", &schedule::MemoryUse::parameters},
                           {"gradients", &schedule::MemoryUse::gradients},
                           {"optimizer", &schedule::MemoryUse::optimizer},
                           {"gathered", &schedule::MemoryUse::gathered},
                           {"activations", &schedule::MemoryUse::activations},
                           {"buffers", &schedule::MemoryUse::buffers},
                           {"offloaded", &schedule::MemoryUse::offloaded}};

}  // namespace

std::vector<std::pair<std::string, int64_t>> kinds_of(const schedule::MemoryUse& use) {
  std::vector<std::pair<std::string, int64_t>> out;
  for (const auto& kind : kKinds) out.emplace_back(kind.name, use.*kind.bytes);
  return out;
}

schedule::MemoryUse take_memory_use(parallel::Strategy& strategy) {
  auto& replica = strategy.replica();
  auto out = replica.memory();
  const int64_t ranks = strategy.num_local_ranks();
  const auto device = replica.flat().fp32().device();
  const int64_t peak =
      device.is_cpu() ? tensor_memory.take_peak() : comm::peak_device_bytes(device);
  const int64_t state = out.parameters + out.optimizer;
  const bool shared = replica.flat().layout().options().shares_weights;
  // On the host the allocator's own count, which rounds sizes up; nothing is computed meanwhile.
  const int64_t known = device.is_cpu()
                            ? tensor_memory.held()
                            : (shared ? state : ranks * state) + ranks * (out.sum() - state);
  out.activations = std::max<int64_t>(0, peak - known) / (device.is_cpu() ? ranks : 1);
  return out;
}

schedule::MemoryUse largest(const schedule::MemoryUse& a, const schedule::MemoryUse& b) {
  auto out = a;
  for (const auto& kind : kKinds) out.*kind.bytes = std::max(a.*kind.bytes, b.*kind.bytes);
  return out;
}

schedule::MemoryUse largest(const schedule::MemoryUse& use, const comm::Group& group) {
  std::vector<int64_t> bytes;
  for (const auto& kind : kKinds) bytes.push_back(use.*kind.bytes);
  auto all = at::tensor(bytes, at::kLong);
  group.all_reduce(all, comm::ReduceOp::Max, "reduce memory use");
  schedule::MemoryUse out;
  for (size_t k = 0; k < bytes.size(); ++k) {
    out.*kKinds[k].bytes = all.const_data_ptr<int64_t>()[k];
  }
  return out;
}

}  // namespace convoy::train
