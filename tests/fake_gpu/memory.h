#pragma once

#include <c10/core/Device.h>

#include <cstddef>

namespace convoy::fake_gpu {

/// A device's memory, mapped twice: tensors carry addresses that the host may not touch, operations
/// use the others. A touch ends the process with SIGSEGV, after a word on stderr and in the report
/// of what lies there.
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t bytes);

  char* begin() const { return guarded_; }
  size_t size() const { return size_; }
  bool holds(const void* address) const;
  char* real(const void* address) const;
  /// Gives pages back to the system; what is read there later is 0.
  void release(const void* address, size_t bytes) const;

 private:
  int file_;
  char *guarded_, *real_;
  size_t size_;
};

/// Of a device, made at its first use.
const DeviceMemory& device_memory(c10::DeviceIndex device);

/// The device that an address belongs to, or -1.
c10::DeviceIndex device_of(const void* address);

/// Where operations find what a tensor has at `address`.
void* real(const void* address);

/// All bits set: not a number as float, double, half and bfloat16.
void poison(void* guarded, size_t bytes);

}  // namespace convoy::fake_gpu
