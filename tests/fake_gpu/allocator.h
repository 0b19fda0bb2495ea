#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>
#include <optional>

#include "tests/fake_gpu/notes.h"

namespace convoy::fake_gpu {

/// What is, or was last, at an address of a device.
struct Allocation {
  const void* begin = nullptr;
  size_t bytes = 0;
  const Note* made = nullptr;
  uint64_t number = 0;
  bool live = false;
};

std::optional<Allocation> find_allocation(const void* address);

/// Says what an allocation was made for, by who writes it first.
void name_allocation(const void* address, const Note* made);

/// Torch's allocator of the simulated devices. It has the rules of torch's cache on CUDA: sizes in
/// steps of 512 bytes, small blocks cut from segments of 2 MiB, larger ones from 20 MiB or their
/// own, each for one stream; a block is given away again when the streams it was recorded on are
/// known to be done. New and freed memory is not a number.
c10::DeviceAllocator& device_allocator();

}  // namespace convoy::fake_gpu
