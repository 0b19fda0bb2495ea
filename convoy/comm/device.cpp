#include "convoy/comm/device.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "convoy/base/text.h"
#include "convoy/comm/pending.h"

namespace convoy::comm {

namespace {

/// Looks up a function of the CUDA driver; null without a driver.
void* driver_function(const char* name) {
  static void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return driver == nullptr ? nullptr : ::dlsym(driver, name);
}

/// Allocator of a device; null for the host, and for a device that has allocated nothing yet.
c10::DeviceAllocator* allocator_of(at::Device device) {
  if (device.is_cpu()) return nullptr;
  auto* out = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  return out != nullptr && out->initialized() ? out : nullptr;
}

}  // namespace

void use_device(at::Device device) {
  if (device.is_cpu()) return;
  c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
}

void synchronize(at::Device device) {
  if (device.is_cpu()) return;
  finish_pending();
  c10::impl::VirtualGuardImpl(device.type()).synchronizeDevice(device.index());
}

at::Tensor upload(const at::Tensor& tensor, at::Device device) {
  if (!device.is_cuda() || !tensor.is_cpu()) return tensor.to(device);
  return tensor.pin_memory().to(device, /*non_blocking=*/true);
}

at::Tensor download(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  finish_pending();
  return tensor.cpu();
}

at::Tensor download_alone(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return tensor;
  const auto device = tensor.device();
  auto host = at::empty(tensor.sizes(), tensor.options().device(at::kCPU)).pin_memory();
  host.copy_(tensor, /*non_blocking=*/true);
  c10::Event done(device.type());
  done.record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
  finish_pending_or([&] { return done.query(); });
  done.synchronize();
  return host;
}

std::string identity(at::Device device) {
  if (device.is_cpu()) return "";
  // A slice of a GPU (MIG) has an identity of its own.
  using GetUuid = int (*)(std::array<unsigned char, 16>*, int);
  static const auto get_uuid = reinterpret_cast<GetUuid>(driver_function("cuDeviceGetUuid_v2"));
  std::array<unsigned char, 16> uuid{};
  if (get_uuid == nullptr || get_uuid(&uuid, device.index()) != 0) return "";
  std::string text = "GPU-";
  for (const unsigned char byte : uuid) text += fmt::format("{:02x}", byte);
  return text;
}

int compute_capability(at::Device device) {
  if (device.is_cpu()) return 0;
  using GetAttribute = int (*)(int*, int, int);
  constexpr int kComputeCapabilityMajor = 75;
  static const auto get = reinterpret_cast<GetAttribute>(driver_function("cuDeviceGetAttribute"));
  int major = 0;
  return get != nullptr && get(&major, kComputeCapabilityMajor, device.index()) == 0 ? major : 0;
}

DeviceMemory device_memory(at::Device device) {
  if (!device.is_cpu()) at::globalContext().lazyInitDevice(device.type());
  auto* allocator = allocator_of(device);
  if (allocator == nullptr) return {};
  const auto [free, total] = allocator->getMemoryInfo(device.index());
  return {static_cast<int64_t>(free), static_cast<int64_t>(total)};
}

void free_unused_memory(at::Device device) {
  auto* allocator = allocator_of(device);
  if (allocator == nullptr) return;
  allocator->emptyCache();
  allocator->resetPeakStats(device.index());
}

int64_t peak_device_bytes(at::Device device) {
  auto* allocator = allocator_of(device);
  if (allocator == nullptr) return 0;
  return allocator->getDeviceStats(device.index()).allocated_bytes[0].peak;
}

std::string device_peaks() {
  if (!c10::impl::hasDeviceGuardImpl(at::kCUDA)) return "";
  const c10::impl::VirtualGuardImpl gpus(at::kCUDA);
  std::string text;
  for (c10::DeviceIndex i = 0; i < gpus.deviceCount(); ++i) {
    const auto bytes = peak_device_bytes(at::Device(at::kCUDA, i));
    if (bytes == 0) continue;
    text += fmt::format("; tensors took up to {} of GPU {}", human_bytes(bytes), i);
  }
  if (text.empty() || std::getenv("PYTORCH_CUDA_ALLOC_CONF") != nullptr) return text;
  return text + "; PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True helps where batches vary";
}

}  // namespace convoy::comm
