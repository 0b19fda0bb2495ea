#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace convoy::gpu {

/// Size of a launch.
struct Grid {
  unsigned blocks = 1;
  unsigned threads = 1;  ///< of a block
};

/// Tensors that a launch uses. The GPU does not need them. The simulated one orders the launch
/// among others by them, and lets it touch nothing else.
struct LaunchOperands {
  std::vector<at::Tensor> reads;
  std::vector<at::Tensor> writes;
  std::vector<at::Tensor> updates;  ///< read, and written in place
};

/// A launch, while a thread makes it.
struct LaunchUnderWay {
  const char* name;
  const LaunchOperands* operands;
};

/// Returns the launch that this thread is making; null at all other times. The simulated GPU calls
/// it.
const LaunchUnderWay* launch_under_way();

/// Whether own kernels may be used: unless CONVOY_GPU_KERNELS is 0, which leaves all to torch's
/// operations.
bool uses_own_kernels();

/// A kernel `extern "C" __global__ void name(...)` of a text in CUDA C++ without includes, before
/// which numbers.cu stands. It is compiled for each kind of GPU at its first use.
class Kernel {
 public:
  Kernel(const char* name, const std::string& text);
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  /// Whether it can run on `device`; compiles it there at the first call. Where it cannot, the
  /// caller has operations of torch for that, and failed_kernels() the reason.
  bool runs_on(at::Device device);

  /// Launches it on the current stream of a device that it runs on. The types of `values` must be
  /// those of the kernel's parameters. Throws KernelError if the driver refuses.
  template <class... Values>
  void launch(at::Device device, Grid grid, const LaunchOperands& operands, Values... values) {
    std::array<void*, sizeof...(Values)> arguments{static_cast<void*>(&values)...};
    launch_with(device, grid, operands, arguments.data());
  }

  /// Whether it can run on `device` and is right: at the first question for a device `difference`
  /// launches it and returns how far it is from torch's operations (gpu/agreement.h), for which the
  /// host waits. More than 1e-5 gives the kernel up.
  bool serves(at::Device device, const std::function<double()>& difference);

  const std::string& name() const { return name_; }
  /// Gives it up for all devices of this process, for a reason that failed_kernels() tells.
  void give_up(const std::string& reason);

 private:
  void launch_with(at::Device device, Grid grid, const LaunchOperands& operands, void** arguments);
  void* load(at::Device device) const;

  std::string name_, text_;
  std::mutex mutex_;
  std::map<int, void*> functions_;  // by device
  std::set<int> tried_;             // devices
  bool failed_ = false;
};

}  // namespace convoy::gpu
