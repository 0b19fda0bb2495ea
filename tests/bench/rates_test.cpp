#include "convoy/bench/rates.h"

#include <gtest/gtest.h>

#include <chrono>

#include "convoy/base/timing.h"

namespace convoy::bench {
namespace {

// Other ranks wait meanwhile, and a processor without products in bf16 is a hundred times slower.
TEST(Rates, TakeSecondsWhateverTheProcessor) {
  const auto began = std::chrono::steady_clock::now();
  const auto half = measure_rate(at::kCPU, 1, int64_t{256} << 20, Products::Bf16);
  EXPECT_LT(seconds_since(began), 20);
  EXPECT_GT(half.bf16_gflops, 0);
  EXPECT_EQ(half.fp32_gflops, 0);
  EXPECT_GT(half.copy_gb_per_second, 0);
  // No product of those that are usually timed fits.
  const auto little = measure_rate(at::kCPU, 1, int64_t{1} << 20, Products::Fp32);
  EXPECT_GT(little.fp32_gflops, 0);
  EXPECT_EQ(little.bf16_gflops, 0);
}

}  // namespace
}  // namespace convoy::bench
