#pragma once

#include <stdexcept>
#include <string>

// NVIDIA's compiler of kernels from text (NVRTC). Torch's CUDA library brings it: no header and no
// toolkit of CUDA is needed.
namespace convoy::gpu {

/// Reason why a kernel cannot be compiled or loaded.
struct KernelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Version of the compiler, "13.2"; "" without one.
std::string nvrtc_version();

/// Compiles CUDA C++ for an architecture ("sm_90"); returns the cubin. `name` is the text's in
/// messages. Throws KernelError with the compiler's first error.
std::string compile_kernel(const std::string& name, const std::string& text,
                           const std::string& architecture);

}  // namespace convoy::gpu
