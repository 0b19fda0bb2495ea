#pragma once

namespace convoy::gpu {

/// Looks up a function of CUDA's driver; null without a driver.
void* driver_function(const char* name);

/// Function of the driver as `Function`, a pointer type; null without a driver.
template <class Function>
Function driver_function(const char* name) {
  return reinterpret_cast<Function>(driver_function(name));
}

}  // namespace convoy::gpu
