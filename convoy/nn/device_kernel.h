#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

// Kernels that compute each element by itself, from texts that torch compiles for the GPU at hand
// (its "jiterator"). A text is compiled twice: for the host, where tests compare it, and there.
#define CONVOY_HOST_AND_GPU(name, ...) \
  __VA_ARGS__                          \
  constexpr const char* name = #__VA_ARGS__;

namespace convoy::nn {

/// Stand-ins for functions that kernels have from the GPU itself, whose results have some wrong
/// bits at the end.
inline float convoy_fast_exp(float x) {
  return std::exp(x);
}
inline float convoy_fast_reciprocal(float x) {
  return 1 / x;
}
constexpr const char* kFastMathText =
    "inline float convoy_fast_exp(float x) { return __expf(x); } "
    "inline float convoy_fast_reciprocal(float x) { return __fdividef(1.0f, x); }";

// Beginning of other texts: numbers as their bits, bits of fp32 rounded to those of bf16, and
// the i-th of four bf16 numbers in 64 bits.
// clang-format off
CONVOY_HOST_AND_GPU(kBitsText,
union ConvoyBits {
  unsigned int bits;
  float number;
};
inline float convoy_number(unsigned int bits) {
  ConvoyBits both;
  both.bits = bits;
  return both.number;
}
inline unsigned int convoy_bits(float number) {
  ConvoyBits both;
  both.number = number;
  return both.bits;
}
inline unsigned int convoy_rounded(float x) {
  unsigned int bits = convoy_bits(x);
  return x == x ? (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16 : 0x7fc0u;
}
inline float convoy_part(unsigned long long packed, int i) {
  return convoy_number((unsigned int)(packed >> (16 * i)) << 16);
}
inline unsigned long long convoy_packed(float x, int i) {
  return (unsigned long long)convoy_rounded(x) << (16 * i);
}
)
// clang-format on

/// A function `template <typename T> T name(T..., scalars...)` of a text. T is the type that torch
/// promotes the tensors to; whole numbers come as `long long`, others as `double`.
class DeviceKernel {
 public:
  DeviceKernel(const char* name, const char* text);

  /// Computes the function of the tensors' elements, on one GPU and broadcast against each other,
  /// at most seven. Nothing where torch cannot compile it: the caller has operations of torch for
  /// that.
  std::optional<at::Tensor> run(const std::vector<at::Tensor>& tensors,
                                const std::vector<c10::Scalar>& scalars = {});
  /// Whether it was compiled, or could be at its first use.
  bool compiles() const;

 private:
  std::string name_, text_;
  bool failed_ = false;
};

/// A small tensor of the host on `device`, once for all kernels of its current stream that ask for
/// the same `key`. Of many, those that were asked for last are kept.
at::Tensor kept_on(at::Device device, std::vector<int64_t> key,
                   const std::function<at::Tensor()>& make);
/// First number of a key of kept_on(): which tensor it is.
enum class Kept : int64_t {
  Halves,
  Lines,
  Columns,
  Samples,
  WholeLines,
  Counters,
  WholeSamples,
  KeysRead,
  SequenceEnds,
  Padding,
  One
};

/// x in bf16 seen as int64, each four numbers of the last dimension, if its layout allows that. For
/// tensors that are not contiguous a kernel takes 64 bits about as fast as 16.
std::optional<at::Tensor> packed(const at::Tensor& x);

/// [2, 1] on the device of `like`, in `type`: 0 and 1. A kernel that gets it makes both halves of
/// something in one launch.
at::Tensor halves_of(const at::Tensor& like, at::ScalarType type);

}  // namespace convoy::nn
