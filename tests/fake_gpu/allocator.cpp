#include "tests/fake_gpu/allocator.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <array>
#include <cstring>
#include <memory>

#include "tests/fake_gpu/block_cache.h"
#include "tests/fake_gpu/device_lock.h"
#include "tests/fake_gpu/memory.h"
#include "tests/fake_gpu/operation.h"
#include "tests/fake_gpu/options.h"
#include "tests/fake_gpu/order.h"
#include "tests/fake_gpu/report.h"

namespace convoy::fake_gpu {

namespace {

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const auto device = c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice();
    void* memory = nullptr;
    if (bytes > 0) {
      const Locked lock;
      memory = cache(device.index()).allocate(bytes, current_stream(device.index()));
    }
    return {memory, memory, &give_back, device};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(real(to), real(from), bytes);
  }

  bool initialized() override { return true; }

  void emptyCache(c10::MempoolId_t) override {
    const Locked lock;
    for (auto& one : caches_) {
      if (one) one->release_cached();
    }
  }

  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    if (!pointer) return;
    const Locked lock;
    cache(device_of(pointer.get())).record_stream(pointer.get(), stream);
  }

  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    const Locked lock;
    return cache(device).stats();
  }

  void resetAccumulatedStats(c10::DeviceIndex) override {}

  void resetPeakStats(c10::DeviceIndex device) override {
    const Locked lock;
    cache(device).reset_peaks();
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    const Locked lock;
    return {options().memory - cache(device).reserved(), options().memory};
  }

  BlockCache& cache(c10::DeviceIndex device) {
    auto& one = caches_.at(static_cast<size_t>(device));
    if (!one)
      one = std::make_unique<BlockCache>(device, device_memory(device),
                                         options().memory - options().held);
    return *one;
  }

 private:
  static void give_back(void* memory);

  std::array<std::unique_ptr<BlockCache>, 64> caches_;
};

Allocator& allocator() {
  static auto* one = new Allocator;
  return *one;
}

void Allocator::give_back(void* memory) {
  if (memory == nullptr) return;
  const Locked lock;
  allocator().cache(device_of(memory)).free(memory);
}

struct Registered {
  Registered() { c10::SetAllocator(c10::kCUDA, &allocator()); }
} registered;

}  // namespace

c10::DeviceAllocator& device_allocator() {
  return allocator();
}

std::optional<Allocation> find_allocation(const void* address) {
  const Locked lock;
  const auto device = device_of(address);
  if (device < 0) return std::nullopt;
  return allocator().cache(device).find(address);
}

void name_allocation(const void* address, const Note* made) {
  const Locked lock;
  allocator().cache(device_of(address)).set_name(address, made);
}

}  // namespace convoy::fake_gpu
