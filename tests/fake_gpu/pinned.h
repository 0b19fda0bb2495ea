#pragma once

#include <ATen/core/CachingHostAllocator.h>

#include "tests/fake_gpu/operation.h"

// Memory of the host that the device reads and writes behind its back.
namespace convoy::fake_gpu {

/// Torch's allocator of pinned memory: powers of two, given away again when the streams that used
/// it are known to be done.
at::HostAllocator& pinned_allocator();

bool is_pinned(const void* address);

/// What cudaHostRegister and cudaHostUnregister do. The CUDA runtime that libtorch_cpu brings along
/// is made to call these.
void pin(void* memory, size_t bytes);
void unpin(void* memory);
void take_over_the_runtime();

/// A copy that runs beside the host, of contiguous memory: `host` is pinned. Up: the source may not
/// change before the host knows that the copy is done. Down: the numbers come then, and what is
/// there before is not a number.
void copy_up(void* device, const void* host, size_t bytes, Operation& operation);
void copy_down(void* host, const void* device, size_t bytes, Operation& operation);

/// Brings in what the host knows to be done.
void settle_copies();

/// What the program should see of copies down when it ends in order: those still under way.
size_t num_copies_under_way();

}  // namespace convoy::fake_gpu
