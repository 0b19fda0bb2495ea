#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

namespace convoy::bench {

/// Work that this process asked its GPUs for.
struct DeviceWork {
  int64_t launches = 0;  ///< kernels, copies, fills
  int64_t waits = 0;     ///< of the host, for whatever reason
};

/// Adds a call of CUDA's runtime or driver, by its name.
void add_call(DeviceWork& work, std::string_view name);

/// Counts between begin() and end(): by torch's profiler, or by the counters of a simulated GPU.
/// Nothing where neither can: on a CPU, or while a trace is recorded.
class DeviceCounter {
 public:
  DeviceCounter(at::Device device, bool is_traced);
  ~DeviceCounter();
  DeviceCounter(const DeviceCounter&) = delete;
  DeviceCounter& operator=(const DeviceCounter&) = delete;

  /// Whether there will be numbers.
  bool counts() const { return way_ != Way::None; }
  void begin();
  std::optional<DeviceWork> end();

 private:
  enum class Way { None, Profiler, Simulated };

  Way way_ = Way::None;
  bool began_ = false;
  DeviceWork before_;
};

}  // namespace convoy::bench
