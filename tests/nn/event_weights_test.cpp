#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "convoy/models/session/session.h"
#include "convoy/nn/losses/cross_entropy.h"
#include "convoy/nn/losses/gbce.h"
#include "convoy/nn/losses/label_smoothing.h"
#include "convoy/nn/losses/sampled_softmax.h"
#include "tests/models/testing.h"
#include "tests/nn/testing.h"

// Targets of training that count more or less than others.
namespace convoy::nn {
namespace {

constexpr int64_t kWeightedRows = 90, kWeightedIds = 60;

/// Loss of h [rows, D], each row by its weight.
using LossOf =
    std::function<at::Tensor(const at::Tensor& h, const ParamPtr& table, const at::Tensor& targets,
                             int64_t first, const at::Tensor& weights)>;

/// Losses of rows that are computed one at a time, and weighted by torch, have the same sum and
/// gradients.
void expect_weighted(const LossOf& loss_of) {
  const auto states = at::randn({kWeightedRows, 8}), rows = at::randn({kWeightedIds, 8});
  const auto targets = at::randint(1, kWeightedIds, {kWeightedRows}, at::kLong);
  auto weights = at::rand({kWeightedRows}) * 3;
  weights.narrow(0, 0, 9).zero_();
  auto h = states.clone().requires_grad_(true);
  const auto table = param(rows.clone());
  const auto loss = loss_of(h, table, targets, 0, weights);
  backward(loss * 3);
  auto sum = at::zeros({}, at::kDouble), of_table = at::zeros(rows.sizes(), at::kDouble);
  auto of_h = at::empty(states.sizes(), at::kDouble);
  for (int64_t i = 0; i < kWeightedRows; ++i) {
    auto own = states.narrow(0, i, 1).clone().requires_grad_(true);
    const auto alone = param(rows.clone());
    const auto one = loss_of(own, alone, targets.narrow(0, i, 1), i, {});
    backward(one * 3);
    const auto weight = weights[i].to(at::kDouble);
    sum += one.detach().to(at::kDouble) * weight;
    of_h[i].copy_(own.grad()[0].to(at::kDouble) * weight);
    of_table += alone->grad().to(at::kDouble) * weight;
  }
  EXPECT_NEAR(loss.item<double>() / sum.item<double>(), 1, 1e-6);
  expect_grads_near({{h.grad(), of_h}, {table->grad(), of_table}}, 2e-6);
}

TEST(EventWeights, ScaleTheTermOfEachTargetInEveryLoss) {
  expect_weighted([](const auto& h, const auto& table, const auto& targets, int64_t,
                     const at::Tensor& weights) {
    return cross_entropy(h, table, targets, {.temperature = 0.7, .weights = weights}).loss;
  });
  expect_weighted([](const auto& h, const auto& table, const auto& targets, int64_t,
                     const at::Tensor& weights) {
    const auto added = label_smoothing(h, table, targets, {0.2, 0.7, 1, weights}, {});
    return added + cross_entropy(h, table, targets, {.temperature = 0.7, .weights = weights}).loss;
  });
  const NegativeSampler sampler(1, kWeightedIds, 20, "log_uniform");
  expect_weighted([&](const auto& h, const auto& table, const auto& targets, int64_t,
                      const at::Tensor& weights) {
    return sampled_cross_entropy(h, table, targets, sampler, {0.7, weights}, {});
  });
  const auto negatives = at::randint(1, kWeightedIds, {kWeightedRows, 5}, at::kLong);
  expect_weighted([&](const auto& h, const auto& table, const auto& targets, int64_t first,
                      const at::Tensor& weights) {
    const auto own = negatives.narrow(0, first, h.size(0));
    return gbce(h, table, targets, own, {0.75, 0.2, 0.7, weights}, {});
  });
}

}  // namespace
}  // namespace convoy::nn

namespace convoy::models {
namespace {

/// Blocks with drawn weights, the same for every config.
nn::Bundle run_once(const SessionConfig& config, nn::Bundle bundle, nn::Mode mode) {
  at::NoGradGuard no_grad;
  nn::Context context;
  context.mode = mode;
  context.samples = at::arange(bundle.at("items").size(0), at::kLong);
  for (const auto& block : make_session_model(config)) {
    for (const auto& param : block->params()) {
      auto value = at::empty(param->spec().shape);
      nn::initialize(param->spec(), 1, value);
      param->bind_value(value);
    }
    bundle = block->forward(bundle, context);
  }
  return bundle;
}

nn::Bundle first_items(const nn::Bundle& session, int64_t count) {
  return {{"items", session.at("items").narrow(1, 0, count)},
          {"lengths", at::full({1}, count, at::kLong)}};
}

/// The loss of the target at a place is that of an evaluation of the row up to it.
TEST(EventWeights, AreThoseOfTheEventsThatAreTargets) {
  auto config = small_session({.ids = 30, .width = 8, .length = 6});
  config.dropout = 0;
  const auto ids = at::tensor({7, 2, 11, 12, 5, 1}, at::kLong).view({1, 6});
  const auto weights = at::tensor({9.0F, 0.5F, 0.0F, 4.0F, 1.0F, 2.5F}).view({1, 6});
  const nn::Bundle session{{"items", ids},
                           {"lengths", at::full({1}, 6, at::kLong)},
                           {"rating", weights},
                           {"kind", at::tensor({4, 1, 0, 3, 2, 5}, at::kLong).view({1, 6})}};
  double expected = 0;
  for (int64_t last = 1; last < 6; ++last) {
    const auto out = run_once(config, first_items(session, last + 1), nn::Mode::Evaluate);
    expected += out.at("loss").item<double>() * weights[0][last].item<double>();
  }
  config.event_weights = {"rating", {}};
  const auto of_numbers = run_once(config, session, nn::Mode::Train);
  EXPECT_NEAR(of_numbers.at("loss").item<double>() / expected, 1, 1e-6);
  EXPECT_DOUBLE_EQ(of_numbers.at("count").item<double>(), 8);
  config.event_weights = {"kind", {0, 0.5, 1, 4, 9, 2.5}};
  const auto of_values = run_once(config, session, nn::Mode::Train);
  EXPECT_TRUE(at::equal(of_values.at("loss"), of_numbers.at("loss")));
  const auto evaluated = run_once(config, first_items(session, 6), nn::Mode::Evaluate);
  EXPECT_EQ(evaluated.at("count").item<double>(), 1) << "an evaluation knows no weights";
}

/// Beside the next item a session counts as much as its targets do.
TEST(EventWeights, WeighTheTargetsOfWholeSessionsToo) {
  auto config = small_session({.ids = 30, .width = 8, .length = 6});
  config.dropout = 0;
  config.targets = {{"total", false, 0.25}};
  config.next_item_weight = 0;
  const nn::Bundle sessions{
      {"items", at::tensor({7, 2, 11, 12, 5, 1, 8, 3, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0}, at::kLong)
                    .view({3, 6})},
      {"lengths", at::tensor({6, 2, 1}, at::kLong)},
      {"total", at::tensor({1.5F, -2.0F, 0.25F})},
      {"rating", at::tensor({9.0F, 0.5F, 0.0F, 4.0F, 1.0F, 2.5F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F,
                             7.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F})
                     .view({3, 6})}};
  const auto told = run_once(config, sessions, nn::Mode::Evaluate).at("prediction.total");
  const auto squares = (told - sessions.at("total")).square();
  config.event_weights = {"rating", {}};
  const auto out = run_once(config, sessions, nn::Mode::Train);
  // The second has a target that is left out, the third has none, and counts once as ever.
  const auto expected = 0.25 * (8 * squares[0] + squares[2]);
  EXPECT_NEAR(out.at("loss").item<double>() / expected.item<double>(), 1, 1e-6);
  EXPECT_DOUBLE_EQ(out.at("count").item<double>(), 8);
}

}  // namespace
}  // namespace convoy::models
