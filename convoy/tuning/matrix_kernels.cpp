#include "convoy/tuning/matrix_kernels.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

// MKL, which computes torch's fp32 products, asks this function whether the processor is Intel's
// and takes its slower kernels elsewhere. The dynamic linker prefers a program's own answer. On
// Intel's processors it is the one that MKL gives itself; elsewhere it is yes where the
// instructions are there, which MKL then looks at one by one.
namespace {

#if defined(__x86_64__)
bool is_intel() {
  __builtin_cpu_init();
  return __builtin_cpu_is("intel");
}
bool has(bool avx512) {
  __builtin_cpu_init();
  if (avx512) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
bool is_intel() {
  return false;
}
bool has(bool) {
  return false;
}
#endif

bool allowed() {
  const char* value = std::getenv("CONVOY_FAST_MKL");
  return value == nullptr || std::string_view(value) != "0";
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int mkl_serv_intel_cpu_true() {
  return convoy::tuning::answer_to_mkl(is_intel(), allowed(), has(false)) ? 1 : 0;
}

/// Name by which the linker takes this file into a program.
extern "C" const char convoy_answers_mkl = 1;

namespace convoy::tuning {

bool answer_to_mkl(bool intel, bool allowed, bool avx2) {
  return intel || (allowed && avx2);
}

#if defined(__aarch64__)

/// Names of the libraries of products that torch's wheel brought into this process.
std::string matrix_kernels() {
  std::ifstream file("/proc/self/maps");
  const std::string maps{std::istreambuf_iterator<char>(file), {}};
  constexpr std::pair<const char*, const char*> kLibraries[] = {
      {"/libnvpl_blas", "NVPL"}, {"/libopenblas", "OpenBLAS"}, {"/libarm_compute", "Arm Compute"}};
  std::string out;
  for (const auto& [library, name] : kLibraries) {
    if (maps.find(library) == std::string::npos) continue;
    out += (out.empty() ? "" : ", ") + std::string(name);
  }
  return out.empty() ? "torch's own" : out;
}

#else

std::string matrix_kernels() {
  if (is_intel() || !has(false)) return "MKL's own choice";
  if (!allowed()) return "MKL's own choice (CONVOY_FAST_MKL=0)";
  return has(true) ? "MKL's AVX-512 kernels" : "MKL's AVX2 kernels";
}

#endif

}  // namespace convoy::tuning
