#pragma once

#include <array>
#include <functional>
#include <vector>

#include "convoy/gpu/kernel.h"
#include "convoy/optim/optimizer.h"

namespace convoy::optim {

/// A stretch of flat buffers as the kernels of update.cu take it.
struct UpdateSegment {
  float* weights = nullptr;
  const float* grads = nullptr;
  void *first = nullptr, *second = nullptr;  ///< states
  void* rounded = nullptr;                   ///< bf16
  uint64_t key = 0;                          ///< of random words
  int64_t begin = 0;                         ///< index of the first element in its parameter
  int64_t length = 0;
  float kept = 1;       ///< factor that weight decay leaves of a weight
  uint32_t chunks = 0;  ///< of this segment and all before it
};

/// UpdateSegments of one launch. All parameters of a kernel may take 4 KiB.
struct UpdateSegments {
  static constexpr size_t kMost = 48;
  std::array<UpdateSegment, kMost> of;
  int count = 0;
};

/// A kernel of update.cu: an optimizer's update of many ranges in few launches, the weights in the
/// compute dtype with it.
class UpdateKernel {
 public:
  using Way = std::function<void(const std::vector<FlatRange>&, const StepNumbers&)>;

  /// `draws`: it rounds its states by random words of Settings, one segment for each span.
  UpdateKernel(const char* name, bool draws);

  /// Whether it can update `ranges`, which are of one device. At the first question for a device it
  /// updates a sample in both ways, of which `by_kernel` calls run(), and compares; the host waits
  /// for that. A kernel with other numbers than torch's operations is given up.
  bool serves(const std::vector<FlatRange>& ranges, const Optimizer& optimizer,
              const Way& by_kernel, const Way& by_operations);

  /// Updates ranges of a device that it runs on. `rule` holds the step's factors as the kernel has
  /// them.
  template <class Rule>
  void run(const std::vector<FlatRange>& ranges, const StepNumbers& numbers, const Rule& rule) {
    for_each_launch(
        ranges, numbers,
        [&](const UpdateSegments& segments, const gpu::LaunchOperands& operands, unsigned blocks) {
          const auto& state = numbers.device_state;
          const void* step = state.defined() ? state.const_data_ptr() : nullptr;
          kernel_.launch(ranges.front().weights.device(), {blocks, kThreads}, operands, segments,
                         rule, step);
        });
  }

 private:
  using Launch =
      std::function<void(const UpdateSegments&, const gpu::LaunchOperands&, unsigned blocks)>;
  static constexpr unsigned kThreads = 256;

  void for_each_launch(const std::vector<FlatRange>& ranges, const StepNumbers& numbers,
                       const Launch& launch) const;
  gpu::Kernel kernel_;
  bool draws_;
};

}  // namespace convoy::optim
