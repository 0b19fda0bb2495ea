#include "convoy/gpu/kernel.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "convoy/gpu/driver.h"
#include "convoy/gpu/failures.h"
#include "convoy/gpu/kept_cubins.h"
#include "convoy/gpu/nvrtc.h"

namespace convoy::gpu {

namespace {

thread_local const LaunchUnderWay* under_way = nullptr;

/// Functions of the driver that load and launch kernels.
struct Driver {
  using Handle = void*;

  template <class Function>
  static void find(Function& function, const char* name) {
    function = driver_function<Function>(name);
    if (function == nullptr) {
      throw KernelError(fmt::format("the GPU's driver has no function {}", name));
    }
  }

  Driver() {
    find(device, "cuDeviceGet");
    find(attribute, "cuDeviceGetAttribute");
    find(retain, "cuDevicePrimaryCtxRetain");
    find(current, "cuCtxGetCurrent");
    find(set_current, "cuCtxSetCurrent");
    find(load, "cuModuleLoadData");
    find(function, "cuModuleGetFunction");
    find(launch, "cuLaunchKernel");
    find(error_name, "cuGetErrorName");
  }

  void check(int code, const char* call) const {
    if (code == 0) return;
    const char* name = nullptr;
    if (error_name(code, &name) != 0 || name == nullptr) name = "an unknown error";
    throw KernelError(fmt::format("{} failed with {} ({})", call, name, code));
  }

  int (*device)(int*, int ordinal);
  int (*attribute)(int*, int attribute, int device);
  int (*retain)(Handle* context, int device);
  int (*current)(Handle* context);
  int (*set_current)(Handle context);
  int (*load)(Handle* module, const void* image);
  int (*function)(Handle*, Handle module, const char* name);
  int (*launch)(Handle function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned shared_bytes, Handle stream, void** arguments, void** more);
  int (*error_name)(int code, const char** name);
};

const Driver& driver() {
  static const Driver all;
  return all;
}

/// Makes the context that torch uses of a device the current one of this thread, for as long as
/// this lives.
class Context {
 public:
  explicit Context(at::Device device) {
    int number = 0;
    driver().check(driver().device(&number, device.index()), "cuDeviceGet");
    driver().check(driver().current(&before_), "cuCtxGetCurrent");
    // Retained once and never given back: it is torch's for as long as the process lives.
    static std::mutex mutex;
    static auto* known = new std::map<int, Driver::Handle>;
    const std::lock_guard lock(mutex);
    auto& context = (*known)[number];
    if (context == nullptr) {
      driver().check(driver().retain(&context, number), "cuDevicePrimaryCtxRetain");
    }
    changed_ = before_ != context;
    if (changed_) driver().check(driver().set_current(context), "cuCtxSetCurrent");
  }
  ~Context() {
    if (changed_) driver().set_current(before_);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

 private:
  Driver::Handle before_ = nullptr;
  bool changed_ = false;
};

/// Architecture of a device as NVRTC names it: "sm_90".
std::string architecture_of(at::Device device) {
  constexpr int kMajor = 75, kMinor = 76;
  int number = 0, major = 0, minor = 0;
  driver().check(driver().device(&number, device.index()), "cuDeviceGet");
  driver().check(driver().attribute(&major, kMajor, number), "cuDeviceGetAttribute");
  driver().check(driver().attribute(&minor, kMinor, number), "cuDeviceGetAttribute");
  return fmt::format("sm_{}{}", major, minor);
}

/// Handle of a stream in CUDA. A template: torch before 2.12 has no such function.
template <class Stream>
void* handle_of(const Stream& stream) {
  if constexpr (requires { stream.native_handle(); }) {
    return stream.native_handle();
  } else {
    throw KernelError("this torch does not tell the handle of a stream");
  }
}

c10::Stream current_stream(at::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

const LaunchUnderWay* launch_under_way() {
  return under_way;
}

bool uses_own_kernels() {
  const char* given = std::getenv("CONVOY_GPU_KERNELS");
  return given == nullptr || std::string_view(given) != "0";
}

Kernel::Kernel(const char* name, const std::string& text)
    : name_(name),
      text_(
#include <convoy/gpu/numbers_cu.h>
      ) {
  text_ += text;
}

/// Loads the kernel onto a device, from the cache or compiled anew.
void* Kernel::load(at::Device device) const {
  const Context context(device);
  handle_of(current_stream(device));  // throws where there is none
  const CubinKey key{text_, architecture_of(device), nvrtc_version()};
  void *module = nullptr, *function = nullptr;
  const auto kept = kept_cubin(key);
  if (!kept || driver().load(&module, kept->data()) != 0) {
    const auto cubin = compile_kernel(name_, text_, key.architecture);
    driver().check(driver().load(&module, cubin.data()), "cuModuleLoadData");
    keep_cubin(key, cubin);
  }
  driver().check(driver().function(&function, module, name_.c_str()), "cuModuleGetFunction");
  return function;
}

bool Kernel::runs_on(at::Device device) {
  if (!device.is_cuda() || !uses_own_kernels()) return false;
  const std::lock_guard lock(mutex_);
  if (failed_) return false;
  auto& function = functions_[device.index()];
  if (function != nullptr) return true;
  const auto failed = [&](const std::string& why) {
    check_device(device);
    failed_ = true;
    add_failed_kernel(name_, why);
    return false;
  };
  try {
    function = load(device);
    return true;
  } catch (const KernelError& error) {
    return failed(error.what());
  } catch (const c10::Error& error) {
    return failed(error.what_without_backtrace());
  }
}

bool Kernel::serves(at::Device device, const std::function<double()>& difference) {
  if (!runs_on(device)) return false;
  {
    const std::lock_guard lock(mutex_);
    if (tried_.contains(device.index())) return true;
  }
  constexpr double kAllowed = 1e-5;
  try {
    if (const double off = difference(); !(off <= kAllowed)) {
      give_up(
          fmt::format("it differs from torch's operations by {:.1g} of the largest number", off));
      return false;
    }
  } catch (const KernelError& error) {
    give_up(error.what());
    return false;
  }
  const std::lock_guard lock(mutex_);
  tried_.insert(device.index());
  return true;
}

void Kernel::give_up(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  failed_ = true;
  add_failed_kernel(name_, reason);
}

void Kernel::launch_with(at::Device device, Grid grid, const LaunchOperands& operands,
                         void** arguments) {
  void* function = nullptr;
  {
    const std::lock_guard lock(mutex_);
    function = functions_.at(device.index());
  }
  const Context context(device);
  const LaunchUnderWay launch{name_.c_str(), &operands};
  under_way = &launch;
  const int code = driver().launch(function, grid.blocks, 1, 1, grid.threads, 1, 1, 0,
                                   handle_of(current_stream(device)), arguments, nullptr);
  under_way = nullptr;
  if (code == 0) return;
  check_device(device);
  driver().check(code, "cuLaunchKernel");
}

}  // namespace convoy::gpu
