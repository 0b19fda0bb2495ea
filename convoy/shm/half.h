#pragma once

#include <cstdint>

// IEEE half precision without branches. F is float and U uint32_t, or F and U are vectors of them;
// a half lies in the lower 16 bits of its U. No std::bit_cast: where that is not inlined, a vector
// goes into it as one instruction set does it and comes out as another.
namespace convoy::shm {

template <class F, class U>
inline __attribute__((always_inline)) F half_to_float(const U& half) {
  const U sign = (half & 0x8000) << 16;
  const U rest = half & 0x7fff;
  // Normal numbers: shift and move the exponent's bias; the factor does that for subnormals too.
  const F scaled = __builtin_bit_cast(F, rest << 13) * 0x1p112f;
  const U special = (rest << 13) | 0x7f800000;  // infinity and NaN
  const U value = rest >= 0x7c00 ? special : __builtin_bit_cast(U, scaled);
  return __builtin_bit_cast(F, value | sign);
}

/// Rounds to nearest, ties to even.
template <class U, class F>
inline __attribute__((always_inline)) U float_to_half(const F& number) {
  const U bits = __builtin_bit_cast(U, number);
  const U sign = (bits >> 16) & 0x8000;
  const U rest = bits & 0x7fffffff;
  // A subnormal half: adding 0.5 puts its bits, rounded, at the end of the fraction.
  const U small = __builtin_bit_cast(U, __builtin_bit_cast(F, rest) + 0.5f) - 0x3f000000;
  const U normal = (rest - 0x38000000 + 0xfff + ((rest >> 13) & 1)) >> 13;
  const U finite = rest < 0x38800000 ? small : normal;
  const U infinite = rest > 0x7f800000 ? U{} + 0x7e00 : U{} + 0x7c00;
  return (rest >= 0x477ff000 ? infinite : finite) | sign;  // rounds to infinity from there on
}

}  // namespace convoy::shm
