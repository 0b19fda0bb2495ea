#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "convoy/base/draw_group.h"
#include "convoy/base/lanes.h"
#include "convoy/base/random.h"

// Stochastic rounding to bf16 (Gupta et al., "Deep Learning with Limited Numerical Precision",
// 2015). bf16 has 8 significant bits: rounded to nearest, a running mean that moves by less than
// 0.2 % a step does not change. Rounded up or down at random, with the probability that makes the
// mean right, it moves on. Draws are a function of seed, step, parameter and index in it: 32 bits,
// of which a state takes 16.
namespace convoy::optim {

/// Key of the random words of a parameter: word w of lane l of group g is for element 64 g + 16 w +
/// l.
inline uint64_t rounding_key(uint64_t seed, int64_t step, std::string_view parameter) {
  // Seed and step side by side would give those of another seed in another step.
  return hash_combine(hash_combine(hash_text(parameter), seed), static_cast<uint64_t>(step));
}

/// Stores numbers as bf16; `draws` 0 to 65535. What bf16 can hold, and NaN, stays as it is.
[[gnu::always_inline]] inline void store_stochastically(const lanes::Floats& from,
                                                        const lanes::Bits& draws, lanes::Bf16* to,
                                                        int64_t count) {
  lanes::Bits bits;
  std::memcpy(&bits, &from, sizeof(bits));
  bits = from == from ? bits + draws : lanes::Bits{} + 0x7fc00000;
  const auto halves = __builtin_convertvector(bits >> 16, lanes::Bf16s);
  lanes::copy(to, &halves, count, sizeof(lanes::Bf16));
}

/// Random words of `length` elements from `begin` on: [length] int64, by torch's operations.
at::Tensor drawn_words(uint64_t key, int64_t begin, int64_t length, at::Device device);
/// `values` fp32, `draws` int64 from 0 to 65535, both [n]: bf16 as store_stochastically() has it.
at::Tensor rounded_stochastically(const at::Tensor& values, const at::Tensor& draws);

}  // namespace convoy::optim
