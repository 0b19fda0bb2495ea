// What libtorch_cpu asks of CUDA.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <filesystem>

#include "tests/fake_gpu/allocator.h"
#include "tests/fake_gpu/memory.h"
#include "tests/fake_gpu/options.h"
#include "tests/fake_gpu/pinned.h"
#include "tests/fake_gpu/report.h"
#include "tests/fake_gpu/skips.h"

namespace convoy::fake_gpu {

namespace {

c10::impl::VirtualGuardImpl guard() {
  return c10::impl::VirtualGuardImpl(c10::kCUDA);
}

at::Device device(c10::DeviceIndex index) {
  return {c10::kCUDA, index};
}

/// As c10/cuda/CUDAFunctions.
void tell_old_driver() {
  TORCH_WARN(
      "CUDA initialization: The NVIDIA driver on your system is too old (found version 12040). "
      "Please update your GPU driver by downloading and installing a new version from the URL: "
      "http://www.nvidia.com/Download/index.aspx Alternatively, go to: https://pytorch.org to "
      "install a PyTorch version that has been compiled with your version of the CUDA driver.");
}

struct Hooks : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return options().devices > 0; }
  bool hasCUDART() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return options().devices > 0; }
  int getNumGPUs() const override { return options().devices; }
  c10::DeviceIndex deviceCount() const override {
    if (options().pretends == "old_driver") tell_old_driver();
    return guard().deviceCount();
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::Allocator* getCUDADeviceAllocator() const override { return &device_allocator(); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  bool isPinnedPtr(const void* pointer) const override { return is_pinned(pointer); }
  at::Device getDeviceFromPtr(void* pointer) const override {
    const auto index = device_of(pointer);
    TORCH_CHECK(index >= 0,
                "The specified pointer resides on host memory and is not registered "
                "with any CUDA device.");
    return device(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    static const auto* one = new at::Generator(at::detail::createCPUGenerator());
    return *one;
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::detail::createCPUGenerator();
  }
  c10::DeviceIndex current_device() const override { return guard().getDevice().index(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { guard().setDevice(device(index)); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return guard().exchangeDevice(device(index)).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? current_device() : exchangeDevice(index);
  }
  void deviceSynchronize(c10::DeviceIndex index) const override {
    guard().synchronizeDevice(index);
  }
  std::string showConfig() const override { return "simulated by convoy/tests/fake_gpu"; }
};

}  // namespace

}  // namespace convoy::fake_gpu

namespace at {
using FakeHooks = convoy::fake_gpu::Hooks;
C10_REGISTER_TYPED_CLASS(CUDAHooksRegistry, "CUDAHooks", FakeHooks)
}  // namespace at

namespace {

/// The stand-in for the driver beside this library; who asks for it later by name gets it.
void open_driver() {
  Dl_info info{};
  static const int here = 0;
  if (::dladdr(&here, &info) == 0) return;
  const auto driver = std::filesystem::path(info.dli_fname).parent_path() / "libcuda.so.1";
  ::dlopen(driver.c_str(), RTLD_NOW | RTLD_LOCAL);
}

struct Opened {
  Opened() {
    open_driver();
    at::setHostAllocator(at::kCUDA, &convoy::fake_gpu::pinned_allocator(), 1);
    convoy::fake_gpu::take_over_the_runtime();
    convoy::fake_gpu::skip_functions();
    for (const auto& key : convoy::fake_gpu::options().unknown) {
      convoy::fake_gpu::misused_quietly("FAKE_GPU_OPTIONS has an unknown key: " + key);
    }
  }
} opened;

}  // namespace
