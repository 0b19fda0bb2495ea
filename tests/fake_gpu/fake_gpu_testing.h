#pragma once

#include <ATen/ATen.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/fake_gpu/api.h"

namespace convoy::fake_gpu {

inline constexpr int kDevices = 4;

/// A function of the simulated device's library.
template <class Function>
Function* library(const char* name, Function*) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}
#define FAKE_GPU(name) ::convoy::fake_gpu::library(#name, &name)

/// Each test begins without misuse, with all sites heeded, on device 0.
class FakeGpu : public testing::Test {
 protected:
  void SetUp() override {
    at::globalContext().lazyInitDevice(at::kCUDA);  // no memory is pinned for torch before
    FAKE_GPU(fake_gpu_heed_all)();
    FAKE_GPU(fake_gpu_set)("mode=throw");
    guard_.synchronizeDevice(0);
    FAKE_GPU(fake_gpu_reset)();
    FAKE_GPU(fake_gpu_label)(0, "");
  }

  c10::Stream pool() const { return guard_.getStreamFromGlobalPool(gpu_); }
  c10::Stream current() const { return guard_.getStream(gpu_); }

  /// What the device says of a misuse by `run`; "" when it has nothing against it.
  template <class Run>
  static std::string misuse(const Run& run) {
    try {
      run();
    } catch (const c10::Error&) {
    }
    return FAKE_GPU(fake_gpu_first_misuse)();
  }

  static c10::Event record(c10::Stream stream) {
    c10::Event event(c10::kCUDA);
    event.record(stream);
    return event;
  }

  static at::Tensor pinned(int64_t count) {
    return at::empty({count}, at::TensorOptions().dtype(at::kFloat).pinned_memory(true));
  }

  const c10::impl::VirtualGuardImpl guard_{c10::kCUDA};
  const at::Device gpu_{at::kCUDA, 0};
  const at::TensorOptions here_ = at::TensorOptions().dtype(at::kFloat).device(gpu_);
};

}  // namespace convoy::fake_gpu
