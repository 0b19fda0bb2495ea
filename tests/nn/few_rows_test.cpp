#include "convoy/nn/few_rows.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace convoy::nn {
namespace {

TEST(FewRows, TimesALargeMatrixAreTheProduct) {
  const auto matrix = at::randn({700, 400}), bias = at::randn({700});
  for (const int64_t rows : {1, 3, 4, 16, 17}) {
    const auto x = at::randn({rows, 400});
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
