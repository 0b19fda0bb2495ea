#include "convoy/comm/cuda.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::comm {

namespace {

std::filesystem::path folder_of(const void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return ".";
  std::error_code failed;
  // A program that was found in PATH is known by its bare name only.
  std::filesystem::path path = info.dli_fname;
  path = std::filesystem::canonical(path.has_parent_path() ? path : "/proc/self/exe", failed);
  return failed ? std::filesystem::path(".") : path.parent_path();
}

Cuda open() {
  Cuda cuda;
  const auto library =
      folder_of(reinterpret_cast<const void*>(&at::globalContext)) / "libtorch_cuda.so";
  if (::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    cuda.why_none = fmt::format("torch's CUDA library cannot be opened ({}); try ./dev build --gpu",
                                ::dlerror());
    return cuda;
  }
  try {
    cuda.num_devices = static_cast<int>(at::detail::getCUDAHooks().deviceCount());
  } catch (const std::exception& error) {
    cuda.why_none = first_line(error.what());
  }
  if (cuda.num_devices == 0 && cuda.why_none.empty()) {
    cuda.why_none = "torch sees no GPU: is the driver there, and is CUDA_VISIBLE_DEVICES right?";
  }
  return cuda;
}

}  // namespace

const Cuda& open_cuda() {
  static const Cuda cuda = open();
  return cuda;
}

std::filesystem::path own_folder() {
  return folder_of(reinterpret_cast<const void*>(&open_cuda));
}

}  // namespace convoy::comm
