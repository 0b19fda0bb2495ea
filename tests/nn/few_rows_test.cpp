#include "convoy/nn/few_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace convoy::nn {
namespace {

TEST(FewRows, TimesALargeMatrixAreTheProduct) {
  for (int64_t rows = 1; rows <= 17; ++rows) {
    const int64_t terms = rows % 5 == 4 ? 405 : 400;
    const auto matrix = at::randn({701, terms}), bias = at::randn({701}),
               x = at::randn({rows + 1, terms}).narrow(0, 1, rows);
    const auto exact = at::mm(x.to(at::kDouble), matrix.t().to(at::kDouble));
    const auto most = 2e-6 * exact.abs().max().item<double>();
    const auto plain = product_with_rows(x, matrix), with_bias = product_with_rows(x, matrix, bias);
    EXPECT_LE((plain - exact).abs().max().item<double>(), most) << rows;
    EXPECT_LE((with_bias - exact - bias).abs().max().item<double>(), 2 * most) << rows;
    EXPECT_TRUE(plain.is_contiguous() && with_bias.is_contiguous());
  }
}

}  // namespace
}  // namespace convoy::nn
