#include "convoy/optim/squares.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/nn/peak_memory.h"

namespace convoy::optim {
namespace {

TEST(Squares, AreSummedInDoublePrecisionWithoutACopyOfAll) {
  const auto values = at::full({(1 << 24) + 3}, 1e-3F);
  values[5] = 1e15F;
  values[1 << 23] = 3e25F;  // its square is beyond fp32
  const double expected = values.to(at::kDouble).square().sum().item<double>();
  const nn::PeakMemory memory;
  const auto squares = sum_of_squares(values);
  EXPECT_EQ(squares.scalar_type(), at::kDouble);
  EXPECT_NEAR(squares.item<double>() / expected, 1, 1e-12);
  EXPECT_LT(memory.peak(), 40 << 20) << "a copy of all in double precision has 128 MB";
  EXPECT_EQ(sum_of_squares(values.narrow(0, 0, 0)).item<double>(), 0);
}

}  // namespace
}  // namespace convoy::optim
