#include "convoy/nn/skinny_gemm.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

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

TEST(FewRows, MultiplyA16BitMatrixAsItsFp32Numbers) {
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

// What a GPU multiplies by a matrix of 16 bits with sums of 32 bits.
TEST(FewRows, ArePartsOf16BitsThatLoseNothing) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const auto x = at::cat({at::randn({5, 300}), at::randn({5, 300}) * 1e-6,
                            at::randn({5, 300}) * 1e7, at::zeros({1, 300})});
    const auto [parts, scale] = narrow_parts(x, type);
    ASSERT_EQ(parts.scalar_type(), type);
    ASSERT_EQ(parts.size(0), 3 * x.size(0));
    ASSERT_EQ(scale.defined(), type == at::kHalf);
    auto sum = parts.to(at::kDouble).view({3, -1, 300}).sum(0);
    const auto table = at::randn({300, 400}).to(type);
    auto products = at::mm(parts.to(at::kFloat), table.to(at::kFloat)).view({3, -1, 400}).sum(0);
    if (scale.defined()) {
      sum.mul_(scale);
      products.mul_(scale);
    }
    // Parts of fp16 lose what lies 2^39 below a row's largest number.
    const auto largest = x.to(at::kDouble).abs().amax(1, true);
    const double loss = type == at::kHalf ? std::exp2(-38) : 0;
    EXPECT_TRUE(((sum - x.to(at::kDouble)).abs() <= largest * loss).all().item<bool>());
    const auto exact = at::mm(x.to(at::kDouble), table.to(at::kDouble));
    const auto size = exact.abs().amax(1, true).clamp_min(1e-30);
    EXPECT_LE(((products - exact) / size).abs().max().item<double>(), 1e-5);
  }
}

TEST(FewRows, NonFiniteInputsStayNonFinite) {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    for (const float odd : {INFINITY, -INFINITY, NAN}) {
      auto x = at::randn({3, 64});
      x[1][7] = odd;
      const auto [parts, scale] = narrow_parts(x, type);
      auto products = at::mm(parts.to(at::kFloat), at::ones({64, 2})).view({3, 3, 2}).sum(0);
      if (scale.defined()) products.mul_(scale);
      EXPECT_FALSE(products[1].isfinite().any().item<bool>()) << odd;
      EXPECT_TRUE(products[0].isfinite().all().item<bool>());
    }
  }
}

TEST(FewRows, MultiplyStridedMatrices) {
  const auto matrix = at::randn({400, 1408}).narrow(1, 704, 704);
  expect_product(at::randn({400, 8}).t(), matrix, at::randn({704}));
  expect_product(at::randn({400, 8}).t(), matrix.t().contiguous().t(), at::randn({704}));
}

}  // namespace
}  // namespace convoy::nn
