#pragma once

#include <bit>
#include <cstdint>

// IEEE half precision without branches, so that a compiler can vectorise it.
namespace convoy::shm {

inline __attribute__((always_inline)) float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t rest = half & 0x7fff;
  // Normal numbers: shift and move the exponent's bias; the factor does that for subnormals too.
  const float scaled = std::bit_cast<float>(rest << 13) * 0x1p112f;
  const uint32_t special = (rest << 13) | 0x7f800000;  // infinity and NaN
  const uint32_t value = rest >= 0x7c00 ? special : std::bit_cast<uint32_t>(scaled);
  return std::bit_cast<float>(value | sign);
}

/// Rounds to nearest, ties to even.
inline __attribute__((always_inline)) uint16_t float_to_half(float number) {
  const auto bits = std::bit_cast<uint32_t>(number);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t rest = bits & 0x7fffffff;
  // A subnormal half: adding 0.5 puts its bits, rounded, at the end of the fraction.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(rest) + 0.5f) - 0x3f000000;
  const uint32_t normal = (rest - 0x38000000 + 0xfff + ((rest >> 13) & 1)) >> 13;
  uint32_t half = rest < 0x38800000 ? small : normal;
  half = rest >= 0x477ff000 ? 0x7c00 : half;  // rounds to infinity
  half = rest > 0x7f800000 ? 0x7e00 : half;
  return static_cast<uint16_t>(half | sign);
}

}  // namespace convoy::shm
