#include "convoy/nn/losses/bpr.h"

#include <gtest/gtest.h>

#include "tests/nn/testing.h"

namespace convoy::nn {
namespace {

/// RecBole's BPRLoss, of one negative or several, without the 1e-10 that it adds to the sigmoid.
at::Tensor by_bpr_formula(const at::Tensor& h, const at::Tensor& table, const at::Tensor& targets,
                          const at::Tensor& negatives, const SampledLossOptions& options) {
  const auto own = (h * table.index_select(0, targets)).sum(1, /*keepdim=*/true);
  const auto others = at::bmm(at::embedding(table, negatives), h.unsqueeze(2)).squeeze(2);
  const auto losses = -at::sigmoid((own - others) / options.temperature).log();
  const auto means = losses.sum(1) / static_cast<double>(negatives.size(1));
  return (options.weights.defined() ? means * options.weights : means).sum();
}

TEST(Bpr, IsWhatTorchMakesOfTheFormula) {
  for (const int64_t count : {1, 70}) {
    const auto states = at::randn({333, 8}), rows = at::randn({400, 8});
    const auto targets = at::randint(1, 400, {333}, at::kLong);
    const auto negatives = at::randint(1, 400, {333, count}, at::kLong);
    for (const auto& weights : {at::Tensor(), at::rand({333}) * 3}) {
      auto h = states.clone().requires_grad_(true);
      const auto table = param(rows.clone());
      const auto loss = bpr(h, table, targets, negatives, {0.7, weights}, {});
      backward(loss * 3);
      auto exact_h = states.to(at::kDouble).requires_grad_(true);
      auto exact_table = rows.to(at::kDouble).requires_grad_(true);
      const auto exact = by_bpr_formula(exact_h, exact_table, targets, negatives, {0.7, weights});
      backward(exact * 3);
      EXPECT_NEAR(loss.item<double>() / exact.item<double>(), 1, 1e-6);
      expect_grads_near({{h.grad(), exact_h.grad()}, {table->grad(), exact_table.grad()}}, 2e-6);
    }
  }
}

// RecBole's sigmoid is 0 there, and its loss 23.
TEST(Bpr, LargeDifferencesGiveNumbers) {
  auto h = at::full({2, 1}, 30.0).requires_grad_(true);
  const auto table = param(at::tensor({0.0f, 10.0f, -10.0f}).view({3, 1}));
  const auto targets = at::tensor({1, 2}, at::kLong), negatives = 3 - targets.unsqueeze(1);
  const auto loss = bpr(h, table, targets, negatives, {}, {});
  backward(loss);
  EXPECT_NEAR(loss.item<double>(), 600, 1e-3);
  EXPECT_NEAR(table->grad()[1].item<double>(), 30, 1e-4);
}

}  // namespace
}  // namespace convoy::nn
