#include "convoy/nn/few_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

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

TEST(FewRows, OfAPieceOfAMatrix) {
  const auto matrix = at::randn({400, 1408}).narrow(1, 704, 704);
  expect_product(at::randn({400, 8}).t(), matrix, at::randn({704}));
  expect_product(at::randn({400, 8}).t(), matrix.t().contiguous().t(), at::randn({704}));
}

}  // namespace
}  // namespace convoy::nn
