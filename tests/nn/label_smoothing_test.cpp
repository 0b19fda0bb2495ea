#include "convoy/nn/losses/label_smoothing.h"

#include <gtest/gtest.h>

#include "convoy/nn/losses/cross_entropy.h"
#include "tests/nn/testing.h"

namespace convoy::nn {
namespace {

TEST(LabelSmoothing, EqualsTorchsTogetherWithTheCrossEntropy) {
  const auto states = at::randn({60, 8}), rows = at::randn({40, 8});
  for (const int64_t first : {0, 1}) {
    const auto targets = at::randint(first, 40, {60}, at::kLong);
    auto h = states.clone().requires_grad_(true);
    const auto table = param(rows.clone());
    const auto added = label_smoothing(h, table, targets, {0.2, 0.7, first}, {});
    const auto loss =
        added + cross_entropy(h, table, targets, {.temperature = 0.7, .first_id = first}).loss;
    backward(loss * 3);
    auto exact_h = states.to(at::kDouble).requires_grad_(true);
    auto exact_table = rows.to(at::kDouble).requires_grad_(true);
    const auto scores = at::mm(exact_h, exact_table.slice(0, first).t()) / 0.7;
    const auto exact = at::cross_entropy_loss(scores, targets - first, {}, at::Reduction::Sum,
                                              /*ignore_index=*/-100, /*label_smoothing=*/0.2);
    backward(exact * 3);
    EXPECT_NEAR(loss.item<double>() / exact.item<double>(), 1, 1e-6);
    expect_grads_near({{h.grad(), exact_h.grad()}, {table->grad(), exact_table.grad()}}, 2e-6);
  }
}

}  // namespace
}  // namespace convoy::nn
