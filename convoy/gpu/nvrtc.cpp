#include "convoy/gpu/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <memory>

namespace convoy::gpu {

namespace {

using Program = void*;

/// Functions of the compiler's C interface, as libtorch_cuda brings them.
struct Nvrtc {
  template <class Function>
  static Function find(const char* name) {
    return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
  }

  int (*version)(int*, int*) = find<decltype(version)>("nvrtcVersion");
  int (*create)(Program*, const char* text, const char* name, int, const char* const*,
                const char* const*) = find<decltype(create)>("nvrtcCreateProgram");
  int (*destroy)(Program*) = find<decltype(destroy)>("nvrtcDestroyProgram");
  int (*compile)(Program, int, const char* const*) = find<decltype(compile)>("nvrtcCompileProgram");
  int (*log_size)(Program, size_t*) = find<decltype(log_size)>("nvrtcGetProgramLogSize");
  int (*log)(Program, char*) = find<decltype(log)>("nvrtcGetProgramLog");
  int (*cubin_size)(Program, size_t*) = find<decltype(cubin_size)>("nvrtcGetCUBINSize");
  int (*cubin)(Program, char*) = find<decltype(cubin)>("nvrtcGetCUBIN");

  bool complete() const {
    return version != nullptr && create != nullptr && destroy != nullptr && compile != nullptr &&
           log_size != nullptr && log != nullptr && cubin_size != nullptr && cubin != nullptr;
  }
};

/// The compiler; asked anew, for torch's CUDA library may be opened late.
Nvrtc nvrtc() {
  return {};
}

void check(int code, const std::string& name, const char* call) {
  if (code == 0) return;
  throw KernelError(fmt::format("{}: {} of NVRTC failed with code {}", name, call, code));
}

/// First error of a compiler's log, else its first line.
std::string first_error(const std::string& log) {
  const auto error = log.find("error");
  if (error == std::string::npos) return log.substr(0, log.find('\n'));
  const auto begin = log.rfind('\n', error);
  const auto from = begin == std::string::npos ? 0 : begin + 1;
  return log.substr(from, log.find('\n', error) - from);
}

}  // namespace

std::string nvrtc_version() {
  const auto compiler = nvrtc();
  int major = 0, minor = 0;
  if (!compiler.complete() || compiler.version(&major, &minor) != 0) return "";
  return fmt::format("{}.{}", major, minor);
}

std::string compile_kernel(const std::string& name, const std::string& text,
                           const std::string& architecture) {
  const auto compiler = nvrtc();
  if (!compiler.complete()) throw KernelError("torch's CUDA library brings no NVRTC");
  Program made = nullptr;
  check(compiler.create(&made, text.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr), name,
        "nvrtcCreateProgram");
  const std::unique_ptr<Program, int (*)(Program*)> program(&made, compiler.destroy);
  const std::string target = "--gpu-architecture=" + architecture;
  // Functions without a mark are the GPU's: texts may share some with the host.
  const std::array options{"--std=c++17", "-default-device", target.c_str()};
  const int code = compiler.compile(made, static_cast<int>(options.size()), options.data());
  if (code != 0) {
    size_t size = 0;
    compiler.log_size(made, &size);
    std::string log(size, '\0');
    compiler.log(made, log.data());
    throw KernelError(
        fmt::format("NVRTC cannot compile it for {}: {}", architecture, first_error(log.c_str())));
  }
  size_t size = 0;
  check(compiler.cubin_size(made, &size), name, "nvrtcGetCUBINSize");
  std::string cubin(size, '\0');
  check(compiler.cubin(made, cubin.data()), name, "nvrtcGetCUBIN");
  return cubin;
}

}  // namespace convoy::gpu
