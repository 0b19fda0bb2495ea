#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace convoy::gpu {

/// Returns the kernels that could not be compiled or run so far, each with its first message.
std::vector<std::string> failed_kernels();

/// Adds a kernel to failed_kernels(); only the first line of `message` is kept.
void add_failed_kernel(const std::string& name, const std::string& message);
void add_failed_kernel(const std::string& name, const c10::Error& error);

/// Throws torch's error if an earlier kernel of `device` has failed. CUDA reports such an error at
/// any later call, which has no part in it. The host does not wait.
void check_device(at::Device device);

}  // namespace convoy::gpu
