#include "convoy/nn/products.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <cmath>

namespace convoy::nn {
namespace {

TEST(Products, OfFewRowsAndALargeMatrix) {
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

TEST(Products, TransposedAreWrittenOrAdded) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    // Columns of a larger matrix, as a layer may get them.
    const auto a = at::randn({70, 90}).to(dtype).narrow(1, 7, 50),
               b = at::randn({70, 33}).to(dtype);
    const auto exact = at::mm(a.t().to(at::kDouble), b.to(at::kDouble));
    const auto type = product_dtype(a);
    EXPECT_TRUE(type == dtype || type == at::kFloat);
    const double most = exact.abs().max().item<double>() * (type == at::kFloat ? 1e-6 : 4e-3);
    auto out = at::full({50, 33}, std::nan(""), at::TensorOptions(type));
    transposed_product(out, a, b);
    EXPECT_LE((out - exact).abs().max().item<double>(), most) << dtype;
    transposed_product(out, a, b, /*add=*/true);
    EXPECT_LE((out - 2 * exact).abs().max().item<double>(), 4 * most) << dtype;
  }
}

}  // namespace
}  // namespace convoy::nn
