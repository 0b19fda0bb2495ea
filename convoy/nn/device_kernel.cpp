#include "convoy/nn/device_kernel.h"

#include <ATen/ATen.h>
#include <ATen/cuda/jiterator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "convoy/comm/device.h"
#include "convoy/gpu/failures.h"

namespace convoy::nn {

namespace {

using CompileAndLaunch = decltype(&at::cuda::CompileAndLaunchKernel);

/// Looks up torch's compiler of GPU kernels, if its CUDA library is loaded.
CompileAndLaunch find_compiler() {
  constexpr const char* kName =
      "_ZN2at4cuda22CompileAndLaunchKernelERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES8"
      "_iRKN3c1011SmallVectorINS_6TensorELj6EEERKNSA_INS9_6ScalarELj1EEEb";
  return reinterpret_cast<CompileAndLaunch>(::dlsym(RTLD_DEFAULT, kName));
}

struct Compiler {
  CompileAndLaunch run = find_compiler();
  std::mutex mutex;  // torch's cache of kernels is not for several threads
};

Compiler& compiler() {
  static Compiler compiler;
  return compiler;
}

}  // namespace

DeviceKernel::DeviceKernel(const char* name, const char* text)
    // Torch keeps what it compiled by the text and the types, without the name: two functions of
    // one text would be taken for each other.
    : name_(name), text_(fmt::format("/* {} */ {} {} {}", name, kFastMathText, kBitsText, text)) {}

std::optional<at::Tensor> DeviceKernel::run(const std::vector<at::Tensor>& tensors,
                                            const std::vector<c10::Scalar>& scalars) {
  auto& torchs = compiler();
  const std::lock_guard lock(torchs.mutex);
  if (torchs.run == nullptr || failed_) return std::nullopt;
  try {
    return torchs.run(text_, name_, 1, c10::SmallVector<at::Tensor>(tensors.begin(), tensors.end()),
                      c10::SmallVector<at::Scalar>(scalars.begin(), scalars.end()),
                      /*return_by_ref=*/false)[0];
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    gpu::check_device(tensors.front().device());
    failed_ = true;
    gpu::add_failed_kernel(name_, error);
    return std::nullopt;
  }
}

bool DeviceKernel::compiles() const {
  const std::lock_guard lock(compiler().mutex);
  return compiler().run != nullptr && !failed_;
}

at::Tensor kept_on(at::Device device, std::vector<int64_t> key,
                   const std::function<at::Tensor()>& make) {
  constexpr size_t kMost = 256;
  static std::mutex mutex;
  // Never destroyed: the library that made the tensors may be unloaded before.
  struct Entry {
    at::Tensor tensor;
    uint64_t used = 0;
  };
  static auto* known = new std::map<std::vector<int64_t>, Entry>;
  static uint64_t now = 0;
  const auto stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  key.insert(key.begin(), {stream.id(), device.index()});
  const std::lock_guard lock(mutex);
  if (const auto found = known->find(key); found != known->end()) {
    found->second.used = ++now;
    return found->second.tensor;
  }
  if (known->size() == kMost) {
    known->erase(std::min_element(known->begin(), known->end(), [](const auto& a, const auto& b) {
      return a.second.used < b.second.used;
    }));
  }
  return ((*known)[std::move(key)] = {comm::upload(make(), device), ++now}).tensor;
}

at::Tensor halves_of(const at::Tensor& like, at::ScalarType type) {
  return kept_on(like.device(), {static_cast<int64_t>(Kept::Halves), static_cast<int64_t>(type)},
                 [type] { return at::arange(2, type).unsqueeze(1); });
}

std::optional<at::Tensor> packed(const at::Tensor& x) {
  constexpr int64_t kNumbers = 4;
  if (x.scalar_type() != at::kBFloat16 || x.dim() == 0 || x.stride(-1) != 1) return std::nullopt;
  const auto fits = [](int64_t number) { return number % kNumbers == 0; };
  const auto strides = x.strides().slice(0, static_cast<size_t>(x.dim() - 1));
  if (!fits(x.size(-1)) || !fits(x.storage_offset())) return std::nullopt;
  if (!std::all_of(strides.begin(), strides.end(), fits)) return std::nullopt;
  return x.view(at::kLong);
}

}  // namespace convoy::nn
