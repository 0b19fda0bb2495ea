// NVIDIA's compiler of kernels from text: here the same text is compiled for the processor, a call
// for each thread. Of CUDA it has what our texts use.
#include <cstring>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>

#include "tests/fake_gpu/emulator.h"
#include "tests/fake_gpu/host_compiler.h"

namespace {

/// Beginning of each text: words of CUDA C++. 16-byte loads and stores fault where the address does
/// not fit, as on a GPU.
constexpr const char* kPrelude = R"(
#include <cmath>
#include <cstring>
#include <utility>
#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
struct fake_gpu_index { unsigned x, y, z; };
extern "C" const fake_gpu_index* fake_gpu_thread();
extern "C" const fake_gpu_index* fake_gpu_block();
extern "C" const fake_gpu_index* fake_gpu_threads();
extern "C" const fake_gpu_index* fake_gpu_blocks();
extern "C" void fake_gpu_wait_for_block();
extern "C" unsigned long long fake_gpu_swap_in_warp(unsigned long long, unsigned lane);
#define __shared__ static
#define __syncthreads fake_gpu_wait_for_block
#define threadIdx (*fake_gpu_thread())
#define blockIdx (*fake_gpu_block())
#define blockDim (*fake_gpu_threads())
#define gridDim (*fake_gpu_blocks())
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline float __uint_as_float(unsigned bits) { float x; std::memcpy(&x, &bits, 4); return x; }
inline unsigned __float_as_uint(float x) { unsigned bits; std::memcpy(&bits, &x, 4); return bits; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  unsigned long long bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = fake_gpu_swap_in_warp(bits, lane);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T>
T __shfl_xor_sync(unsigned all, T value, int mask) {
  return __shfl_sync(all, value, threadIdx.x % 32 ^ mask);
}
namespace fake_gpu {
template <class... Values, size_t... I>
void call(void (*kernel)(Values...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<Values*>(arguments[I])...);
}
template <class... Values>
void call(void (*kernel)(Values...), void** arguments) {
  call(kernel, arguments, std::index_sequence_for<Values...>());
}
}
)";

struct Program {
  std::string text, log, library;
};

/// The text with a function of each kernel that runs one thread: "thread_of_" and its name.
std::string source_of(const std::string& text) {
  std::ostringstream out;
  out << kPrelude << text << "\n";
  const std::regex kernels(
      R"(extern "C" __global__ void(?:\s+__launch_bounds__\(\w+\))?\s+(\w+)\()");
  for (std::sregex_iterator i(text.begin(), text.end(), kernels), end; i != end; ++i) {
    const std::string name = (*i)[1];
    out << "extern \"C\" void thread_of_" << name << "(void** arguments) { fake_gpu::call(" << name
        << ", arguments); }\n";
  }
  return out.str();
}

}  // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int nvrtcVersion(int* major, int* minor) {
  // What is kept of a text follows from its beginning, too.
  *major = 0, *minor = static_cast<int>(std::hash<std::string_view>{}(kPrelude) % 1'000'000);
  return 0;
}

EXPORTED int nvrtcCreateProgram(Program** program, const char* text, const char*, int,
                                const char* const*, const char* const*) {
  *program = new Program{text, "", ""};
  return 0;
}

EXPORTED int nvrtcDestroyProgram(Program** program) {
  delete *program;
  *program = nullptr;
  return 0;
}

EXPORTED int nvrtcCompileProgram(Program* program, int, const char* const*) try {
  program->library = convoy::fake_gpu::compile_on_host(source_of(program->text));
  return 0;
} catch (const std::exception& error) {
  constexpr int kCompilation = 6;
  program->log = error.what();
  return kCompilation;
}

EXPORTED int nvrtcGetProgramLogSize(Program* program, size_t* size) {
  *size = program->log.size() + 1;
  return 0;
}

EXPORTED int nvrtcGetProgramLog(Program* program, char* log) {
  std::strcpy(log, program->log.c_str());
  return 0;
}

/// The "cubin" is the library's path.
EXPORTED int nvrtcGetCUBINSize(Program* program, size_t* size) {
  *size = program->library.size() + 1;
  return 0;
}

EXPORTED int nvrtcGetCUBIN(Program* program, char* cubin) {
  std::strcpy(cubin, program->library.c_str());
  return 0;
}
