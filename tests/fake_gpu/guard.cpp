// Devices, streams and events as c10 asks for them.
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <array>
#include <atomic>
#include <chrono>

#include "tests/fake_gpu/allocator.h"
#include "tests/fake_gpu/counters.h"
#include "tests/fake_gpu/device_lock.h"
#include "tests/fake_gpu/memory.h"
#include "tests/fake_gpu/options.h"
#include "tests/fake_gpu/order.h"
#include "tests/fake_gpu/sites.h"

namespace convoy::fake_gpu {

namespace {

// As c10/cuda/CUDAStream: streams of a pool are used by turns.
constexpr int64_t kPool = 32;
constexpr int64_t kFirstOwn = 1000;

struct Event {
  Clock clock;
  c10::DeviceIndex device = 0;
  bool was_asked = false;
  std::chrono::steady_clock::time_point at;
};

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, 64> current_streams{};

void count_wait() {
  Counts one;
  one.waits = 1;
  count(one);
}

c10::DeviceIndex checked(c10::Device device) {
  TORCH_CHECK(device.is_cuda() && device.index() >= 0 && device.index() < options().devices,
              "CUDA error: invalid device ordinal");
  return device.index();
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  Guard() = default;

  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(options().devices);
  }

  c10::Device getDevice() const override { return {c10::kCUDA, current_device}; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto before = getDevice();
    setDevice(device);
    return before;
  }
  void setDevice(c10::Device device) const override {
    const auto index = checked(device);
    if (index != current_device && !ignored_here("set_device")) current_device = index;
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() != current_device && !ignored_here("set_device")) {
      current_device = device.index();
    }
  }

  c10::Stream getStream(c10::Device device) const override {
    const auto index = device.has_index() ? checked(device) : current_device;
    return stream(index, current_streams[static_cast<size_t>(index)]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return stream(device.has_index() ? device.index() : current_device, 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool high) const override {
    static std::array<std::atomic<uint32_t>, 128> next{};
    const auto index = device.has_index() ? checked(device) : current_device;
    const auto turn = next.at(static_cast<size_t>(index * 2 + (high ? 1 : 0)))++;
    return stream(index, 1 + turn % kPool + (high ? kPool : 0));
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    static std::atomic<int64_t> next{kFirstOwn};
    return stream(device.has_index() ? checked(device) : current_device, next++);
  }
  c10::Stream exchangeStream(c10::Stream to) const override {
    auto& current = current_streams.at(static_cast<size_t>(to.device_index()));
    const auto before = stream(to.device_index(), current);
    if (to.id() != current && !ignored_here("set_stream")) current = to.id();
    return before;
  }
  void* getStreamNativeHandle(c10::Stream of) const override {
    return reinterpret_cast<void*>(of.id());
  }

  void record(void** event, const c10::Stream& on, const c10::DeviceIndex device,
              const c10::EventFlag) const override {
    TORCH_CHECK(device == -1 || device == on.device_index(), "Event device index ", device,
                " does not match recording stream's device index ", on.device_index(), ".");
    const bool ignored = ignored_here("record");
    const Locked lock;
    if (*event == nullptr) *event = new Event;
    auto& made = *static_cast<Event*>(*event);
    made.device = on.device_index();
    made.at = std::chrono::steady_clock::now();
    if (ignored || mutated("event_without_work")) return;
    made.clock = reached(on);
    made.was_asked = false;
  }
  void block(void* event, const c10::Stream& on) const override {
    if (event == nullptr || ignored_here("block")) return;
    const Locked lock;
    stream_waits(on, static_cast<Event*>(event)->clock);
  }
  /// Not done at the first question, unless the host knows: whoever asks must be ready for that.
  bool queryEvent(void* event) const override {
    if (event == nullptr) return true;
    const Locked lock;
    auto& asked = *static_cast<Event*>(event);
    if (!asked.was_asked && !host_knows(asked.clock)) {
      asked.was_asked = true;
      return false;
    }
    host_waits(asked.clock);
    return true;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  double elapsedTime(void* begin, void* end, const c10::DeviceIndex) const override {
    const std::chrono::duration<double, std::milli> time =
        static_cast<Event*>(end)->at - static_cast<Event*>(begin)->at;
    return time.count();
  }

  bool queryStream(const c10::Stream& of) const override {
    const Locked lock;
    return host_knows(reached(of));
  }
  void synchronizeStream(const c10::Stream& of) const override {
    if (ignored_here("synchronize_stream")) return;
    count_wait();
    if (mutated("early_synchronize")) return;
    const Locked lock;
    host_waits(reached(of));
  }
  void synchronizeEvent(void* event) const override {
    if (event == nullptr || ignored_here("synchronize_event")) return;
    count_wait();
    if (mutated("early_synchronize")) return;
    const Locked lock;
    host_waits(static_cast<Event*>(event)->clock);
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override {
    if (ignored_here("synchronize_device")) return;
    count_wait();
    const Locked lock;
    host_waits(reached(device));
  }

  void recordDataPtrOnStream(const c10::DataPtr& pointer, const c10::Stream& on) const override {
    if (!pointer || device_of(pointer.get()) < 0 || ignored_here("record_stream")) return;
    device_allocator().recordStream(pointer, on);
  }

 private:
  static c10::Stream stream(c10::DeviceIndex device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, {c10::kCUDA, device}, id);
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

}  // namespace

}  // namespace convoy::fake_gpu
