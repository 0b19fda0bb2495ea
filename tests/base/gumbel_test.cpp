#include "convoy/base/gumbel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace convoy {
namespace {

TEST(Gumbel, DrawsTheLargestSumByItsWeight) {
  const std::vector<double> weights{0.5, 0.02, 0.3, 0.08, 0.1};
  constexpr int64_t kDraws = 100000;
  const auto count = static_cast<int64_t>(weights.size());
  std::vector<int64_t> drawn(weights.size());
  std::vector<float> noise(weights.size());
  for (uint64_t key = 0; key < kDraws; ++key) {
    fill_gumbel(key, count, noise.data());
    size_t best = 0;
    const auto sum = [&](size_t i) { return std::log(weights[i]) + noise[i]; };
    for (size_t i = 1; i < weights.size(); ++i) best = sum(i) > sum(best) ? i : best;
    ++drawn[best];
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(drawn[i]) / kDraws, weights[i],
                4.5 * std::sqrt(weights[i] * (1 - weights[i]) / kDraws));
  }
}

TEST(Gumbel, HasItsMomentsTailsAndNoDrawTwice) {
  constexpr int64_t kCount = 1000003;  // no whole number of groups
  std::vector<float> all(kCount);
  fill_gumbel(7, kCount, all.data());
  double sum = 0, squares = 0;
  int64_t beyond = 0;
  for (const float x : all) {
    ASSERT_TRUE(std::isfinite(x));
    sum += x;
    squares += static_cast<double>(x) * x;
    beyond += x > 9;
  }
  const double mean = sum / kCount, variance = squares / kCount - mean * mean;
  const double expected = M_PI * M_PI / 6, tail = -std::expm1(-std::exp(-9.0));
  EXPECT_NEAR(mean, 0.5772157, 4.5 * std::sqrt(expected / kCount));
  EXPECT_NEAR(variance, expected, 0.02);
  EXPECT_NEAR(static_cast<double>(beyond) / kCount, tail, 4.5 * std::sqrt(tail / kCount));
  std::vector<float> first(100);
  fill_gumbel(7, 100, first.data());
  EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin())) << "whatever follows";
  std::sort(all.begin(), all.end());
  const auto twice = kCount - std::distance(all.begin(), std::unique(all.begin(), all.end()));
  EXPECT_LT(twice, kCount / 4) << "fp32 has few numbers";
}

}  // namespace
}  // namespace convoy
