#include "convoy/checkpoint/mxfp4.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <array>
#include <cmath>

#include "convoy/base/error.h"

namespace convoy::checkpoint {

namespace {

constexpr int64_t kBytes = 16;  // of a group
constexpr int kBias = 127;
// By their four bits: sign, exponent, mantissa.
constexpr std::array<float, 16> kNumbers{0,    .5f,  1,  1.5f,  2,  3,  4,  6,
                                         -0.f, -.5f, -1, -1.5f, -2, -3, -4, -6};

}  // namespace

at::Tensor from_mxfp4(const at::Tensor& blocks, const at::Tensor& scales) {
  auto groups = scales.sizes().vec();
  groups.push_back(kBytes);
  internal_check(blocks.sizes() == groups && blocks.scalar_type() == at::kByte &&
                     scales.scalar_type() == at::kByte,
                 "checkpoint", "blocks of MXFP4 do not fit their scales");
  auto sizes = scales.sizes().vec();
  sizes.back() *= 2 * kBytes;
  auto out = at::empty(sizes, at::kBFloat16);
  const auto read = blocks.contiguous(), exponents = scales.contiguous();
  const auto* from = read.const_data_ptr<uint8_t>();
  const auto* powers = exponents.const_data_ptr<uint8_t>();
  auto* to = out.mutable_data_ptr<at::BFloat16>();
  at::parallel_for(0, scales.numel(), 1 << 10, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      const float scale = std::ldexp(1.0F, powers[group] - kBias);
      for (int64_t i = group * kBytes; i < (group + 1) * kBytes; ++i) {
        to[2 * i] = kNumbers[from[i] & 15U] * scale;
        to[2 * i + 1] = kNumbers[from[i] >> 4U] * scale;
      }
    }
  });
  return out;
}

}  // namespace convoy::checkpoint
