#pragma once

namespace convoy::fake_gpu {

/// Index of a thread in its block, or of a block in its grid.
struct Index {
  unsigned x = 0, y = 0, z = 0;
};

/// Function that runs one thread of a kernel; nvrtc.cpp makes it beside the kernel.
using ThreadOfKernel = void (*)(void** arguments);

}  // namespace convoy::fake_gpu
