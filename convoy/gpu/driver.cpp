#include "convoy/gpu/driver.h"

#include <dlfcn.h>

namespace convoy::gpu {

void* driver_function(const char* name) {
  static void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver == nullptr ? nullptr : ::dlsym(driver, name);
}

}  // namespace convoy::gpu
