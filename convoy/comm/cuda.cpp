#include "convoy/comm/cuda.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <typeinfo>

#include "convoy/base/error.h"
#include "convoy/base/fake_gpu.h"
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

/// Keeps the first thing that torch warns of instead of printing it.
class FirstWarning : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    if (text.empty()) text = first_line(warning.msg());
  }
  std::string text;
};

Cuda open() {
  Cuda cuda;
  const auto fake = fake_gpus();
  const auto library =
      (fake ? fake->folder : folder_of(reinterpret_cast<const void*>(&at::globalContext))) /
      "libtorch_cuda.so";
  if (::dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    cuda.why_none = fmt::format("torch's CUDA library cannot be opened ({}); try ./dev build --gpu",
                                ::dlerror());
    return cuda;
  }
  const auto& hooks = at::detail::getCUDAHooks();
  if (typeid(hooks) == typeid(at::CUDAHooksInterface)) {
    cuda.why_none =
        "torch was asked for CUDA (by manual_seed or a backward) before its CUDA library was "
        "opened; try convoy::open_devices() as the first line of main";
    return cuda;
  }
  FirstWarning warning;
  const c10::WarningUtils::WarningHandlerGuard guard(&warning);
  try {
    cuda.num_devices = static_cast<int>(hooks.deviceCount());
  } catch (const std::exception& error) {
    warning.text = first_line(error.what());
  }
  if (cuda.num_devices > 0) return cuda;
  cuda.why_none = warning.text.empty()
                      ? "torch sees no GPU; is the driver there, and is CUDA_VISIBLE_DEVICES right?"
                      : fmt::format("torch can use no GPU; it says: {}", warning.text);
  return cuda;
}

}  // namespace

const Cuda& open_cuda() {
  static const Cuda cuda = open();
  return cuda;
}

std::vector<std::filesystem::path> plugin_folders() {
  if (const auto fake = fake_gpus()) return {fake->folder};
  const auto own = folder_of(reinterpret_cast<const void*>(&open_cuda));
  return {own, own / "../lib", own / "../bin"};
}

}  // namespace convoy::comm
