#include "convoy/bench/device_work.h"

#include <dlfcn.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "convoy/base/fake_gpu.h"

namespace convoy::bench {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

namespace {

uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

/// Returns the counters of tests/fake_gpu/api.h so far.
DeviceWork simulated() {
  constexpr size_t kLaunches = 0, kWaits = 2, kNumbers = 10;
  using Counts = void (*)(int64_t*);
  const auto counts = reinterpret_cast<Counts>(::dlsym(RTLD_DEFAULT, "fake_gpu_counts"));
  std::array<int64_t, kNumbers> numbers{};
  if (counts != nullptr) counts(numbers.data());
  return {numbers[kLaunches], numbers[kWaits]};
}

}  // namespace

void add_call(DeviceWork& work, std::string_view name) {
  const auto begins = [&](std::string_view text) { return name.starts_with(text); };
  if (begins("cudaLaunch") || begins("cuLaunch") || begins("cudaMemcpy") || begins("cuMemcpy") ||
      begins("cudaMemset") || begins("cuMemset")) {
    ++work.launches;
  }
  const bool copies = begins("cudaMemcpy") || begins("cuMemcpy");
  if (name.find("Synchronize") != name.npos || (copies && name.find("Async") == name.npos)) {
    ++work.waits;
  }
}

DeviceCounter::DeviceCounter(at::Device device, bool is_traced) {
  if (!device.is_cuda()) return;
  if (fake_gpus()) {
    way_ = Way::Simulated;
  } else if (!is_traced) {  // there is one profiler
    way_ = Way::Profiler;
  }
}

DeviceCounter::~DeviceCounter() {
  end();
}

void DeviceCounter::begin() {
  began_ = true;
  if (way_ == Way::Simulated) before_ = simulated();
  if (way_ != Way::Profiler) return;
  setenv("KINETO_LOG_LEVEL", "99", /*overwrite=*/0);
  const std::set<ActivityType> activities{ActivityType::CUDA};
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
}

std::optional<DeviceWork> DeviceCounter::end() {
  if (!std::exchange(began_, false) || way_ == Way::None) return std::nullopt;
  if (way_ == Way::Simulated) {
    const auto now = simulated();
    return DeviceWork{now.launches - before_.launches, now.waits - before_.waits};
  }
  const auto ended = now_ns();  // the profiler waits for the GPU, too
  const auto result = profiler::disableProfiler();
  DeviceWork work;
  for (const auto& event : result->events()) {
    if (event.deviceType() == at::kCPU && event.startNs() < ended) add_call(work, event.name());
  }
  return work;
}

}  // namespace convoy::bench
