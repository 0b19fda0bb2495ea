#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "convoy/nn/device_kernel.h"

namespace convoy::nn {
namespace {

TEST(KeptOn, ForgetsOnlyWhatWasNotAskedForLongest) {
  int made = 0;
  const auto ask = [&](int64_t number) {
    return kept_on(at::kCPU, {-1, number}, [&] { return at::full({1}, (++made, number)); });
  };
  constexpr int64_t kMany = 1000, kSome = 100;
  for (int64_t i = 0; i < kMany; ++i) {
    EXPECT_EQ(ask(i).item<int64_t>(), i);
    ask(0);  // used all the time
  }
  EXPECT_EQ(made, kMany);
  for (int64_t i = kMany - kSome; i < kMany; ++i) EXPECT_EQ(ask(i).item<int64_t>(), i);
  EXPECT_EQ(made, kMany);
}

}  // namespace
}  // namespace convoy::nn
