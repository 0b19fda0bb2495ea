#include "convoy/nn/skinny_gemm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/nn/peak_memory.h"

namespace convoy::nn {
namespace {

void expect_product(const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& bias) {
  const auto exact = at::mm(x.to(at::kDouble), matrix.to(at::kDouble));
  const auto most = 2e-6 * exact.abs().max().item<double>();
  const auto plain = product_of_rows(x, matrix), with_bias = product_of_rows(x, matrix, bias);
  EXPECT_LE((plain - exact).abs().max().item<double>(), most) << x.size(0);
  EXPECT_LE((with_bias - exact - bias).abs().max().item<double>(), 2 * most) << x.size(0);
  EXPECT_TRUE(plain.is_contiguous() && with_bias.is_contiguous());
}

TEST(FewRows, TimesALargeMatrixAreTheProduct) {
  for (int64_t rows = 1; rows <= 17; ++rows) {
    for (const int64_t terms : {400, 405}) {
      const auto x = at::randn({rows + 1, terms}).narrow(0, 1, rows);
      expect_product(x, at::randn({701, terms}).t(), at::randn({701}));
      expect_product(x, at::randn({terms, 704}), at::randn({704}));
      expect_product(x, at::randn({terms, 701}), at::randn({701}));
    }
  }
}

TEST(FewRows, OfAMatrixOf16BitsAreThoseOfItsNumbers) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    for (const int64_t rows : {1, 8, 17}) {
      const auto x = at::randn({rows, 512});
      const auto table = at::randn({24'000, 512}).to(type);
      const auto expected = product_of_rows(x, table.to(at::kFloat).t());
      const PeakMemory memory;
      const auto product = product_of_rows(x, table.t());
      EXPECT_LT(memory.peak(), table.numel() * 2) << "not even a second table of 16 bits";
      EXPECT_LE((product - expected).abs().max().item<double>(), 1e-4) << rows;
      const auto bias = at::randn({24'000});
      EXPECT_TRUE(at::allclose(product_of_rows(x, table.t(), bias), product + bias, 1e-5, 1e-5));
    }
  }
}

// What a GPU multiplies by a matrix of bf16 with sums of 32 bits.
TEST(FewRows, ArePartsOf16BitsThatLoseNothing) {
  const auto x = at::cat({at::randn({5, 300}), at::randn({5, 300}) * 1e-6, at::zeros({1, 300})});
  const auto parts = narrow_parts(x);
  ASSERT_EQ(parts.scalar_type(), at::kBFloat16);
  ASSERT_EQ(parts.size(0), 3 * x.size(0));
  EXPECT_TRUE(at::equal(parts.to(at::kDouble).view({3, -1, 300}).sum(0), x.to(at::kDouble)));
  const auto table = at::randn({300, 400}).to(at::kBFloat16);
  const auto products = at::mm(parts.to(at::kFloat), table.to(at::kFloat));
  EXPECT_LE(
      (products.view({3, -1, 400}).sum(0) - product_of_rows(x, table)).abs().max().item<double>(),
      1e-4);
}

TEST(FewRows, OfAPieceOfAMatrix) {
  const auto matrix = at::randn({400, 1408}).narrow(1, 704, 704);
  expect_product(at::randn({400, 8}).t(), matrix, at::randn({704}));
  expect_product(at::randn({400, 8}).t(), matrix.t().contiguous().t(), at::randn({704}));
}

}  // namespace
}  // namespace convoy::nn
