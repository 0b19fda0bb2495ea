#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <memory>
#include <string>

// Calls to a GPU without linking CUDA. For the host they do nothing, or return 0 or "".
namespace convoy::comm {

/// Makes `device` the current one of this thread: what a module makes on "cuda" without a number,
/// and what torch does without a tensor, goes there.
void use_device(at::Device device);

/// Waits for all that was started on `device`: it is not done when its call returns.
void synchronize(at::Device device);

/// Returns the copy of a host tensor on `device`, through pinned memory: the host does not wait for
/// it.
at::Tensor upload(const at::Tensor& tensor, at::Device device);

/// Returns the host's copy of a tensor, for which the host waits; first for collectives that are
/// under way on GPUs (see finish_pending).
at::Tensor download(const at::Tensor& tensor);

/// A copy of a GPU's tensor to the host that is under way behind what was started before, and not
/// behind what is started later.
class Download {
 public:
  explicit Download(const at::Tensor& tensor);
  /// Returns the host's copy, for which the host waits; for collectives only as far as the copy
  /// needs them.
  at::Tensor get() const;

 private:
  at::Tensor host_;
  std::shared_ptr<c10::Event> done_;
};

/// Returns the host's copy of a tensor as soon as it is there: collectives that were started before
/// may still be under way. In a pipeline, one of them may wait for what this rank sends later.
at::Tensor download_alone(const at::Tensor& tensor);

/// A text that two processes share exactly when they compute on the same GPU; "" when unknown.
std::string identity(at::Device device);

/// Returns the major number of the GPU's compute capability (9: Hopper); 0 when unknown.
int compute_capability(at::Device device);

/// Bytes of a device, and those that no process holds; 0 when unknown, and of the host.
struct DeviceMemory {
  int64_t free = 0, total = 0;
};
DeviceMemory device_memory(at::Device device);

/// Gives back what no tensor of this process holds on `device`, and counts its peak anew.
void free_unused_memory(at::Device device);

/// Peak bytes of this process's tensors on `device`; 0 for the host.
int64_t peak_device_bytes(at::Device device);

/// Returns the peaks of all GPUs of this process as a clause for a message, or "".
std::string device_peaks();

}  // namespace convoy::comm
