#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "convoy/models/causal_head.h"
#include "tests/models/testing.h"
#include "tests/nn/testing.h"

namespace convoy::models {
namespace {

constexpr int64_t kSmoothedWidth = 8, kSmoothedIds = 30;

/// A head without norm, whose table has these rows.
nn::BlockPtr head_with(const nn::ParamPtr& table, double cap = 0) {
  CausalHeadOptions options;
  options.table = table;
  options.logits_cap = cap;
  return make_causal_head(options);
}

TEST(SmoothedLabels, GiveTorchsLossInTraining) {
  const auto states = at::randn({2, 5, kSmoothedWidth}),
             rows = at::randn({kSmoothedIds, kSmoothedWidth});
  const auto asked = at::tensor({0, 2, 3, 6, 8}, at::kLong);
  const auto targets = at::randint(0, kSmoothedIds, {asked.size(0)}, at::kLong);
  const auto table = nn::param(rows.clone());
  const auto head = head_with(table);
  smooth_labels({head}, 0.1);
  const auto loss_of = [&](nn::Mode mode, const at::Tensor& hidden) {
    nn::Context context;
    context.mode = mode;
    return head->forward({{"hidden", hidden}, {"asked", asked}, {"targets", targets}}, context)
        .at("loss");
  };
  auto hidden = states.clone().requires_grad_(true);
  const auto loss = loss_of(nn::Mode::Train, hidden);
  nn::backward(loss);
  const auto exact = [&](double smoothing, at::Tensor h, const at::Tensor& t) {
    const auto scores = h.reshape({-1, kSmoothedWidth}).index_select(0, asked).mm(t.t());
    return at::cross_entropy_loss(scores, targets, {}, at::Reduction::Sum, -100, smoothing);
  };
  auto h = states.to(at::kDouble).requires_grad_(true);
  auto t = rows.to(at::kDouble).requires_grad_(true);
  const auto expected = exact(0.1, h, t);
  nn::backward(expected);
  EXPECT_NEAR(loss.item<double>() / expected.item<double>(), 1, 1e-6);
  nn::expect_grads_near({{hidden.grad(), h.grad()}, {table->grad(), t.grad()}}, 2e-6);
  // An evaluation tells the loss as it is.
  at::NoGradGuard no_grad;
  EXPECT_NEAR(loss_of(nn::Mode::Evaluate, states).item<double>() /
                  exact(0, states.to(at::kDouble), rows.to(at::kDouble)).item<double>(),
              1, 1e-6);
}

TEST(SmoothedLabels, NeedScoresThatAreNotCapped) {
  const auto head = head_with(nn::param(at::randn({kSmoothedIds, kSmoothedWidth})), /*cap=*/30);
  EXPECT_THROW(smooth_labels({head}, 0.1), UsageError);
  const auto bert = small_bert({}).make_blocks();
  EXPECT_THROW(smooth_labels(bert, 0.1), UsageError);
}

}  // namespace
}  // namespace convoy::models
