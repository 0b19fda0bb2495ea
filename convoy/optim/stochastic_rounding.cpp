#include "convoy/optim/stochastic_rounding.h"

#include <ATen/ATen.h>

#include <array>

namespace convoy::optim {

namespace {

constexpr int64_t kWordBits = 0xFFFFFFFF;

at::Tensor high_bits(const at::Tensor& x) {
  return at::bitwise_right_shift(x, 32).bitwise_and_(kWordBits);
}

}  // namespace

at::Tensor drawn_words(uint64_t key, int64_t begin, int64_t length, at::Device device) {
  const int64_t first = begin / kDrawGroup, last = (begin + length - 1) / kDrawGroup;
  const auto counter = at::arange(first * lanes::kLanes, (last + 1) * lanes::kLanes,
                                  at::TensorOptions().dtype(at::kLong).device(device));
  const auto zeros = at::zeros_like(counter);
  std::array<at::Tensor, 4> c{counter.bitwise_and(kWordBits), high_bits(counter), zeros, zeros};
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const auto a = c[0] * int64_t{0xD2511F53}, b = c[2] * int64_t{0xCD9E8D57};
    c = {high_bits(b).bitwise_xor_(c[1]).bitwise_xor_(static_cast<int64_t>(k0)),
         b.bitwise_and(kWordBits),
         high_bits(a).bitwise_xor_(c[3]).bitwise_xor_(static_cast<int64_t>(k1)),
         a.bitwise_and(kWordBits)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return at::stack(c)
      .view({4, -1, lanes::kLanes})
      .transpose(0, 1)
      .reshape({-1})
      .narrow(0, begin - first * kDrawGroup, length);
}

at::Tensor rounded_stochastically(const at::Tensor& values, const at::Tensor& draws) {
  const auto bits = values.view(at::kInt).add(draws.to(at::kInt)).bitwise_and_(~0xFFFF);
  // Exact, since the lower half is zero. A NaN's bits may have become any.
  return at::where(values.isnan(), values, bits.view(at::kFloat)).to(at::kBFloat16);
}

}  // namespace convoy::optim
