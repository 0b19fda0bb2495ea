#include "convoy/comm/device.h"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "convoy/base/text.h"
#include "convoy/comm/pending.h"
#include "convoy/gpu/driver.h"

namespace convoy::comm {

namespace {

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

Download::Download(const at::Tensor& tensor) {
  const auto device = tensor.device();
  host_ = at::empty(tensor.sizes(), tensor.options().device(at::kCPU)).pin_memory();
  host_.copy_(tensor, /*non_blocking=*/true);
  done_ = std::make_shared<c10::Event>(device.type());
  done_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

at::Tensor Download::get() const {
  finish_pending_or([&] { return done_->query(); });
  done_->synchronize();
  return host_;
}

at::Tensor download_alone(const at::Tensor& tensor) {
  return tensor.is_cpu() ? tensor : Download(tensor).get();
}

std::string identity(at::Device device) {
  if (device.is_cpu()) return "";
  // A slice of a GPU (MIG) has an identity of its own.
  using GetUuid = int (*)(std::array<unsigned char, 16>*, int);
  static const auto get_uuid = gpu::driver_function<GetUuid>("cuDeviceGetUuid_v2");
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
  static const auto get = gpu::driver_function<GetAttribute>("cuDeviceGetAttribute");
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
