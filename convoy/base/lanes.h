#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

/// A function that is compiled for several kinds of processors; the running one's is taken. All of
/// them but the oldest round a product and what is added to it once; so does Arm's only one.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CONVOY_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#elif defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__)
#define CONVOY_CLONES __attribute__((optimize("fp-contract=fast")))
#else
#define CONVOY_CLONES
#endif

/// Sixteen numbers at a time. All here is inlined into functions with CONVOY_CLONES.
namespace convoy::lanes {

inline constexpr int kLanes = 16;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Bits = uint32_t __attribute__((vector_size(kLanes * sizeof(uint32_t))));

/// Bits of a bf16 number: the upper half of an fp32 one.
struct Bf16 {
  uint16_t bits;
};
using Bf16s = uint16_t __attribute__((vector_size(kLanes * sizeof(uint16_t))));

/// Copies `count` of the lanes' numbers; most often all, in one instruction.
[[gnu::always_inline]] inline void copy(void* to, const void* from, int64_t count, size_t size) {
  if (count == kLanes) {
    std::memcpy(to, from, kLanes * size);
  } else {
    std::memcpy(to, from, static_cast<size_t>(count) * size);
  }
}

/// Loads the first `count` lanes; the others become `filler`.
[[gnu::always_inline]] inline void load(const float* from, Floats& to, int64_t count = kLanes,
                                        float filler = 0) {
  to = Floats{} + filler;
  copy(&to, from, count, sizeof(float));
}

[[gnu::always_inline]] inline void store(const Floats& from, float* to, int64_t count = kLanes) {
  copy(to, &from, count, sizeof(float));
}

[[gnu::always_inline]] inline void load(const Bf16* from, Floats& to, int64_t count = kLanes) {
  Bf16s halves{};
  copy(&halves, from, count, sizeof(Bf16));
  const Bits bits = __builtin_convertvector(halves, Bits) << 16;
  std::memcpy(&to, &bits, sizeof(to));
}

/// Rounds to the nearest, to the even of two.
[[gnu::always_inline]] inline void store(const Floats& from, Bf16* to, int64_t count = kLanes) {
  Bits bits;
  std::memcpy(&bits, &from, sizeof(bits));
  bits = from == from ? bits + 0x7fff + ((bits >> 16) & 1) : Bits{} + 0x7fc00000;
  const auto halves = __builtin_convertvector(bits >> 16, Bf16s);
  copy(to, &halves, count, sizeof(Bf16));
}

/// Number of the lanes from `i` on that lie before `end`.
[[gnu::always_inline]] inline int64_t count_at(int64_t i, int64_t end) {
  return end - i < kLanes ? end - i : kLanes;
}

[[gnu::always_inline]] inline float sum(const Floats& values) {
  using Half = float __attribute__((vector_size(kLanes * sizeof(float) / 2)));
  using Quarter = float __attribute__((vector_size(kLanes * sizeof(float) / 4)));
  std::array<Half, 2> halves;
  std::memcpy(halves.data(), &values, sizeof(values));
  const Half half = halves[0] + halves[1];
  std::array<Quarter, 2> quarters;
  std::memcpy(quarters.data(), &half, sizeof(half));
  const Quarter quarter = quarters[0] + quarters[1];
  return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

[[gnu::always_inline]] inline float largest(const Floats& values) {
  float out = values[0];
  for (int lane = 1; lane < kLanes; ++lane) out = values[lane] > out ? values[lane] : out;
  return out;
}

/// x becomes e^x for x <= 0, within 2 units in the last place; NaN stays NaN. Below -87: zero.
[[gnu::always_inline]] inline void exponentiate(Floats& x) {
  constexpr float kRound = 12582912.0f;  // 1.5 x 2^23: adding it leaves a whole number below
  const Floats lowest = Floats{} - 87.0f, given = x;
  x = x < lowest ? lowest : x;
  const Floats shifted = x * 1.44269504f + kRound;
  Bits power, bits;
  std::memcpy(&power, &shifted, sizeof(power));
  const Floats n = shifted - kRound;
  const Floats r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
  Floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  std::memcpy(&bits, &p, sizeof(bits));
  bits += power << 23;
  std::memcpy(&x, &bits, sizeof(x));
  x = given < lowest ? Floats{} : x;
  x = given == given ? x : given;
}

/// ln x of a normal number above zero, within 3 units in the last place away from 1.
[[gnu::always_inline]] inline void logarithm(Floats& x) {
  constexpr float kTerms[] = {0.129141703f,  -0.132408427f, 0.141800787f,
                              -0.166091265f, 0.200020717f,  -0.250015851f,
                              0.33333324f,   -0.499999883f, 1.0f};
  constexpr uint32_t kRootOfHalf = 0x3f3504f3;
  Bits bits;
  std::memcpy(&bits, &x, sizeof(bits));
  const Bits power = ((bits - kRootOfHalf + (256u << 23)) >> 23) - 256u;
  bits -= power << 23;
  Floats mantissa;
  std::memcpy(&mantissa, &bits, sizeof(bits));
  const Floats f = mantissa - 1.0f;
  Floats p = Floats{} - 0.0763859244f;
  for (const float term : kTerms) p = p * f + term;
  using Ints = int32_t __attribute__((vector_size(kLanes * sizeof(int32_t))));
  Ints whole;
  std::memcpy(&whole, &power, sizeof(whole));
  x = f * p + __builtin_convertvector(whole, Floats) * 0.693147181f;
}

/// Calls `work(i, count)` for all lanes of begin .. end - 1; it must be always_inline itself.
template <class Work>
[[gnu::always_inline]] inline void each(int64_t begin, int64_t end, const Work& work) {
  for (; begin + kLanes <= end; begin += kLanes) work(begin, int64_t{kLanes});
  if (begin < end) work(begin, end - begin);
}

}  // namespace convoy::lanes
