#pragma once

#include <mutex>

namespace convoy::fake_gpu {

/// The one lock of all that the device keeps: clocks, memory, counters. Kernels run without it.
class Locked {
 public:
  Locked() : lock_(mutex()) {}

 private:
  static std::recursive_mutex& mutex() {
    static auto* one = new std::recursive_mutex;  // outlives whatever is freed at the end
    return *one;
  }
  std::lock_guard<std::recursive_mutex> lock_;
};

}  // namespace convoy::fake_gpu
