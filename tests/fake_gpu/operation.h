#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <limits>
#include <string_view>

#include "tests/fake_gpu/history.h"

namespace convoy::fake_gpu {

/// The current stream of a device in this thread.
c10::Stream current_stream(c10::DeviceIndex device);

/// How many operations this thread began.
uint64_t num_launches_here();

/// An operation that begins now on a stream. What it uses is looked at: memory that is not
/// allocated, of another device, or in use by something that nothing orders before it is an error.
class Operation {
 public:
  Operation(std::string_view name, c10::Stream stream);
  Operation(std::string_view name, c10::DeviceIndex device)
      : Operation(name, current_stream(device)) {}

  /// Tensors of the host and undefined ones are passed over. Of its elements so many move at most.
  void reads(const at::Tensor& tensor, int64_t elements = kAll) { uses(tensor, false, elements); }
  void writes(const at::Tensor& tensor, int64_t elements = kAll) { uses(tensor, true, elements); }
  /// Memory of a device or pinned.
  void uses(Range range, bool writes);

  Stamp stamp() const { return access_.stamp; }
  const Access& access() const { return access_; }
  c10::Stream stream() const { return stream_; }

 private:
  static constexpr int64_t kAll = std::numeric_limits<int64_t>::max();

  void uses(const at::Tensor& tensor, bool writes, int64_t elements);

  c10::Stream stream_;
  Access access_;
};

/// The same memory as a tensor of the host; tensors of the host are themselves.
at::Tensor on_host(const at::Tensor& tensor);

/// Bytes from the first element of a tensor to the end of its last.
Range span_of(const at::Tensor& tensor);

}  // namespace convoy::fake_gpu
