#include "convoy/gpu/failures.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <mutex>

namespace convoy::gpu {

namespace {

struct Failures {
  std::mutex mutex;
  std::vector<std::string> texts;
};

Failures& failures() {
  static Failures all;
  return all;
}

}  // namespace

std::vector<std::string> failed_kernels() {
  const std::lock_guard lock(failures().mutex);
  return failures().texts;
}

void add_failed_kernel(const std::string& name, const std::string& message) {
  const std::lock_guard lock(failures().mutex);
  failures().texts.push_back(name + ": " + message.substr(0, message.find('\n')));
}

void add_failed_kernel(const std::string& name, const c10::Error& error) {
  add_failed_kernel(name, std::string(error.what_without_backtrace()));
}

void check_device(at::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl gpu(device.type());
  gpu.queryStream(gpu.getStream(device));
}

}  // namespace convoy::gpu
