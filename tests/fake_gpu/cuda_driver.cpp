// What convoy asks of the CUDA driver: who a device is, and what it can do.
#include <array>
#include <cstdlib>
#include <cstring>

extern "C" int cuDeviceGetUuid_v2(std::array<unsigned char, 16>* identity, int device) {
  identity->fill(0xfa);
  const char* options = std::getenv("FAKE_GPU_OPTIONS");
  if (options != nullptr && std::strstr(options, "mutate=same_identity") != nullptr) device = 0;
  std::memcpy(identity->data(), &device, sizeof device);
  return 0;
}

extern "C" int cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "NVIDIA H100 80GB HBM3", static_cast<size_t>(size));
  return 0;
}

extern "C" int cuDeviceGetAttribute(int* value, int attribute, int) {
  constexpr int kComputeCapabilityMajor = 75, kInvalidValue = 1;
  if (attribute != kComputeCapabilityMajor) return kInvalidValue;
  *value = 9;
  return 0;
}
