// What convoy asks of the CUDA driver: who a device is and what it can do, and launches of kernels.
#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr int kInvalidValue = 1, kInvalidImage = 200, kNotFound = 500;

/// Contexts are the numbers of their devices, and one.
thread_local char* context = nullptr;

bool option(const char* text) {
  const char* options = std::getenv("FAKE_GPU_OPTIONS");
  return options != nullptr && std::strstr(options, text) != nullptr;
}

}  // namespace

extern "C" int cuDeviceGetUuid_v2(std::array<unsigned char, 16>* identity, int device) {
  identity->fill(0xfa);
  if (option("mutate=same_identity")) device = 0;
  std::memcpy(identity->data(), &device, sizeof device);
  return 0;
}

extern "C" int cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "NVIDIA H100 80GB HBM3", static_cast<size_t>(size));
  return 0;
}

extern "C" int cuDeviceGetAttribute(int* value, int attribute, int) {
  constexpr int kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76;
  if (attribute != kComputeCapabilityMajor && attribute != kComputeCapabilityMinor) {
    return kInvalidValue;
  }
  *value = attribute == kComputeCapabilityMajor ? 9 : 0;
  return 0;
}

extern "C" int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}

extern "C" int cuDevicePrimaryCtxRetain(char** out, int device) {
  *out = reinterpret_cast<char*>(static_cast<intptr_t>(device) + 1);
  return 0;
}

extern "C" int cuCtxGetCurrent(char** out) {
  *out = context;
  return 0;
}

extern "C" int cuCtxSetCurrent(char* given) {
  context = given;
  return 0;
}

extern "C" int cuGetErrorName(int, const char** name) {
  *name = "CUDA_ERROR_OF_THE_SIMULATION";
  return 0;
}

/// An image is the path of a library.
extern "C" int cuModuleLoadData(void** module, const void* image) {
  if (option("pretend=no_modules")) return kInvalidImage;
  *module = ::dlopen(static_cast<const char*>(image), RTLD_NOW | RTLD_LOCAL);
  return *module == nullptr ? kInvalidImage : 0;
}

extern "C" int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = ::dlsym(module, (std::string("thread_of_") + name).c_str());
  return *function == nullptr ? kNotFound : 0;
}

extern "C" int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads,
                              unsigned, unsigned, unsigned, void* stream, void** arguments,
                              void**) {
  using Launch = int (*)(void*, int, unsigned, unsigned, void*, void**);
  static const auto launch = reinterpret_cast<Launch>(::dlsym(RTLD_DEFAULT, "fake_gpu_launch"));
  if (launch == nullptr) return kNotFound;
  const auto device = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
  return launch(function, device, blocks, threads, stream, arguments);
}
