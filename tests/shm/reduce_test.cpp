#include "convoy/shm/reduce.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "convoy/shm/half.h"

namespace convoy::shm {
namespace {

bool is_nan(Dtype dtype, uint16_t bits) {
  return (bits & 0x7fff) > (dtype == Dtype::F16 ? 0x7c00 : 0x7f80);
}

/// The same with every instruction set that this machine has: which of two NaNs, is open.
template <class T>
std::vector<T> reduced(Dtype dtype, Reduction op, const std::vector<std::vector<T>>& inputs) {
  std::vector<const void*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  std::vector<T> out(inputs[0].size());
  reduce(dtype, op, out.data(), pointers, out.size(), Instructions::Any);
  for (int set = 1; set <= static_cast<int>(best_instructions()); ++set) {
    std::vector<T> again(out.size());
    reduce(dtype, op, again.data(), pointers, again.size(), static_cast<Instructions>(set));
    for (size_t i = 0; i < out.size(); ++i) {
      using Bytes = std::array<std::byte, sizeof(T)>;
      if (std::bit_cast<Bytes>(again[i]) == std::bit_cast<Bytes>(out[i])) continue;
      if constexpr (sizeof(T) == 2) {
        if (is_nan(dtype, again[i]) && is_nan(dtype, out[i])) continue;
      }
      ADD_FAILURE() << name_of(dtype) << ", " << inputs.size() << " x " << out.size() << ", set "
                    << set << ": " << again[i] << " instead of " << out[i] << " at " << i;
    }
  }
  return out;
}

TEST(Reduce, AddsInOrderWhateverTheLength) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (size_t count : {1, 15, 64, 1023, 5001}) {
    for (size_t ranks : {1, 2, 3, 5}) {
      std::vector<std::vector<float>> inputs(ranks, std::vector<float>(count));
      for (auto& input : inputs) {
        for (auto& x : input) x = normal(random) * 1e4f;
      }
      const auto out = reduced(Dtype::F32, Reduction::Sum, inputs);
      for (size_t i = 0; i < count; ++i) {
        float sum = inputs[0][i];
        for (size_t r = 1; r < ranks; ++r) sum += inputs[r][i];
        ASSERT_EQ(out[i], sum) << i << " of " << count;
      }
    }
  }
}

/// 16-bit numbers of every kind and at every place of a vector against one sum after the other.
TEST(Reduce, HalvesAreTheSameAtEveryPlace) {
  std::mt19937 random(3);
  for (const auto dtype : {Dtype::BF16, Dtype::F16}) {
    for (size_t count : {1, 2, 31, 32, 33, 97, 4096}) {
      for (size_t ranks : {2, 3, 4}) {
        std::vector<std::vector<uint16_t>> inputs(ranks, std::vector<uint16_t>(count));
        for (auto& input : inputs) {
          for (auto& x : input) x = static_cast<uint16_t>(random());
        }
        const auto sums = reduced(dtype, Reduction::Sum, inputs);
        const auto largest = reduced(dtype, Reduction::Max, inputs);
        for (size_t i = 0; i < count; ++i) {
          const auto number = [&](uint16_t bits) {
            return dtype == Dtype::F16 ? half_to_float<float>(uint32_t{bits})
                                       : std::bit_cast<float>(uint32_t{bits} << 16);
          };
          float sum = number(inputs[0][i]);
          float most = sum;
          for (size_t r = 1; r < ranks; ++r) {
            const float next = number(inputs[r][i]);
            sum += next;
            most = std::isnan(most) || std::isnan(next) ? NAN : std::max(most, next);
          }
          if (std::isnan(sum)) {
            ASSERT_TRUE(std::isnan(number(sums[i]))) << i << " of " << count;
          } else if (std::isinf(number(sums[i]))) {
            ASSERT_GE(std::abs(sum), dtype == Dtype::F16 ? 65520 : 3.39e38f) << i;
          } else {
            // The nearest: no neighbour is nearer.
            const auto up = static_cast<uint16_t>(sums[i] + 1);
            const auto down = static_cast<uint16_t>(sums[i] - 1);
            const auto error = [&](uint16_t bits) {
              return std::abs(double{number(bits)} - double{sum});
            };
            ASSERT_FALSE(error(up) < error(sums[i])) << sum << " at " << i;
            ASSERT_FALSE(error(down) < error(sums[i])) << sum << " at " << i;
          }
          if (std::isnan(most)) {
            ASSERT_TRUE(std::isnan(number(largest[i])));
          } else {
            ASSERT_EQ(number(largest[i]), most);
          }
        }
      }
    }
  }
}

TEST(Reduce, MayWriteIntoAnInput) {
  std::vector<double> a{1, 2, 3}, b{10, 20, 30}, c{100, 200, 300};
  const std::vector<const void*> inputs{a.data(), b.data(), c.data()};
  reduce(Dtype::F64, Reduction::Sum, b.data(), inputs, 3);
  EXPECT_EQ(b, (std::vector<double>{111, 222, 333}));
}

TEST(Reduce, IntegersWrapAroundAndKeepTheirSign) {
  EXPECT_EQ(reduced<int32_t>(Dtype::I32, Reduction::Sum, {{INT32_MAX, -5}, {1, 3}}),
            (std::vector<int32_t>{INT32_MIN, -2}));
  EXPECT_EQ(reduced<int64_t>(Dtype::I64, Reduction::Max, {{-7, 1}, {-9, 2}}),
            (std::vector<int64_t>{-7, 2}));
  EXPECT_EQ(reduced<int8_t>(Dtype::I8, Reduction::Max, {{-7, 1}, {-9, 2}}),
            (std::vector<int8_t>{-7, 2}));
  EXPECT_EQ(reduced<uint8_t>(Dtype::U8, Reduction::Max, {{200, 1}, {9, 2}}),
            (std::vector<uint8_t>{200, 2}));
}

TEST(Reduce, AMaximumWithNanIsNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto out = reduced<float>(Dtype::F32, Reduction::Max, {{nan, 1, 2}, {1, nan, 3}});
  EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
  EXPECT_EQ(out[2], 3);
}

uint16_t bf16(float x) {
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16);
}

TEST(Reduce, Bf16IsAddedInFp32AndRoundedOnceToEven) {
  // 256 + 1 lies between 256 and 258; + 1 more is 258 only when the first 1 was not rounded away.
  EXPECT_EQ(reduced<uint16_t>(Dtype::BF16, Reduction::Sum, {{bf16(256)}, {bf16(1)}, {bf16(1)}})[0],
            bf16(258));
  EXPECT_EQ(reduced<uint16_t>(Dtype::BF16, Reduction::Sum, {{bf16(256)}, {bf16(1)}})[0], bf16(256));
  EXPECT_EQ(reduced<uint16_t>(Dtype::BF16, Reduction::Sum, {{bf16(258)}, {bf16(1)}})[0], bf16(260));
  const auto nan = reduced<uint16_t>(Dtype::BF16, Reduction::Sum, {{0x7f80}, {0xff80}})[0];
  EXPECT_EQ(nan & 0x7fff, 0x7fc0);
}

/// The value of the bits of a half, by the definition of the format.
double value_of(uint16_t half) {
  const int exponent = (half >> 10) & 31;
  const double fraction = half & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return half & 0x8000 ? -magnitude : magnitude;
}

float to_float(uint32_t half) {
  return half_to_float<float>(half);
}
uint32_t to_half(float number) {
  return float_to_half<uint32_t>(number);
}

TEST(Half, EveryNumberGoesThereAndBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float number = to_float(half);
    if ((half & 0x7fff) > 0x7c00) {
      EXPECT_TRUE(std::isnan(number));
      EXPECT_TRUE(std::isnan(to_float(to_half(number))));
      continue;
    }
    if ((half & 0x7fff) < 0x7c00) {
      ASSERT_EQ(number, value_of(half)) << bits;
    }
    ASSERT_EQ(to_half(number), half) << bits;
  }
  EXPECT_EQ(to_half(65519.0f), 0x7bff);
  EXPECT_EQ(to_half(65520.0f), 0x7c00);
  EXPECT_EQ(to_half(-1e9f), 0xfc00);
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  std::mt19937 random(2);
  for (int i = 0; i < 200000; ++i) {
    const auto half = static_cast<uint16_t>(random() % 0x7bff);
    const double low = value_of(half), high = value_of(static_cast<uint16_t>(half + 1));
    const double part = static_cast<double>(random() % 5) / 4;
    const auto number = static_cast<float>(low + (high - low) * part);
    const uint16_t up = part > 0.5 || (part == 0.5 && half % 2 == 1);
    ASSERT_EQ(to_half(number), half + up) << number;
  }
}

}  // namespace
}  // namespace convoy::shm
