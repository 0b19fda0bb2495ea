#include "convoy/nn/losses/gbce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "convoy/models/session/negatives.h"
#include "tests/nn/testing.h"

namespace convoy::nn {
namespace {

/// The formula of the paper, as it stands there: p(target)^beta, for torch to derive.
at::Tensor by_formula(const at::Tensor& h, const at::Tensor& table, const at::Tensor& targets,
                      const at::Tensor& negatives, const GbceOptions& options) {
  const auto score = [&](const at::Tensor& rows) { return rows / options.temperature; };
  const auto own = score((h * table.index_select(0, targets)).sum(1));
  const auto others = score(at::bmm(at::embedding(table, negatives), h.unsqueeze(2)).squeeze(2));
  const double alpha = options.sampling_rate;
  const double beta = alpha * (options.t * (1 - 1 / alpha) + 1 / alpha);
  const auto of_target = at::pow(at::sigmoid(own), beta).log();
  const auto of_others = (1 - at::sigmoid(others)).log().sum(1);
  return -(of_target + of_others).sum() / static_cast<double>(negatives.size(1) + 1);
}

TEST(Gbce, IsWhatTorchMakesOfTheFormula) {
  const auto states = at::randn({333, 8}), rows = at::randn({400, 8});
  const auto targets = at::randint(1, 400, {333}, at::kLong);
  const auto negatives = at::randint(1, 400, {333, 70}, at::kLong);
  for (const GbceOptions& options : {GbceOptions{0.75, 0.2, 0.7}, GbceOptions{0, 0.2, 1},
                                     GbceOptions{1, 0.5, 1}, GbceOptions{0.3, 1, 1}}) {
    auto h = states.clone().requires_grad_(true);
    const auto table = param(rows.clone());
    const auto loss = gbce(h, table, targets, negatives, options, {});
    backward(loss * 3);
    auto exact_h = states.to(at::kDouble).requires_grad_(true);
    auto exact_table = rows.to(at::kDouble).requires_grad_(true);
    const auto exact = by_formula(exact_h, exact_table, targets, negatives, options);
    backward(exact * 3);
    EXPECT_NEAR(loss.item<double>() / exact.item<double>(), 1, 1e-6);
    expect_grads_near({{h.grad(), exact_h.grad()}, {table->grad(), exact_table.grad()}}, 2e-6);
  }
}

// Softplus of a score beyond what exp() can hold.
TEST(Gbce, LargeScoresGiveNumbers) {
  auto h = at::full({2, 1}, 30.0).requires_grad_(true);
  const auto table = param(at::tensor({0.0f, 10.0f, -10.0f}).view({3, 1}));
  const auto targets = at::tensor({1, 2}, at::kLong), negatives = 3 - targets.unsqueeze(1);
  const auto loss = gbce(h, table, targets, negatives, {.t = 0, .sampling_rate = 1}, {});
  backward(loss);
  EXPECT_NEAR(loss.item<double>(), 300, 1e-3);
  EXPECT_TRUE(table->grad().isfinite().all().item<bool>());
}

TEST(Negatives, AreUniformAmongAllButTheTarget) {
  constexpr int64_t kIds = 12, kCount = 7, kSteps = 4000;
  const auto ids = at::tensor({3, 9, 4, 1, 1, 11}, at::kLong).view({2, 3});
  const auto positions = at::tensor({0, 1, 3, 4}, at::kLong);
  const auto targets = ids.view({-1}).index_select(0, positions + 1);
  Context context;
  context.samples = at::tensor({5, 8}, at::kLong);
  std::map<std::pair<int64_t, int64_t>, double> times;  // of a row and an id
  for (context.step = 0; context.step < kSteps; ++context.step) {
    const auto drawn = models::draw_negatives(ids, positions, targets, 1, kIds, kCount, context);
    ASSERT_EQ(drawn.sizes(), (std::vector<int64_t>{4, kCount}));
    for (int64_t i = 0; i < drawn.numel(); ++i) {
      ++times[{i / kCount, drawn.const_data_ptr<int64_t>()[i]}];
    }
  }
  constexpr double kDraws = kSteps * kCount, kShare = 1.0 / (kIds - 2);
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t id = 0; id < kIds; ++id) {
      const bool can = id > 0 && id != targets[row].item<int64_t>();
      const double deviation = std::sqrt(kDraws * kShare * (1 - kShare));
      EXPECT_LE(std::abs(times[std::pair{row, id}] - (can ? kDraws * kShare : 0)),
                can ? 4.5 * deviation : 0)
          << row << ' ' << id;
    }
  }
}

TEST(Negatives, DoNotDependOnHowABatchIsCut) {
  const auto ids = at::tensor({3, 9, 4, 0, 1, 1, 11, 5}, at::kLong).view({2, 4});
  Context context;
  context.samples = at::tensor({5, 8}, at::kLong);
  const auto of = [&](const at::Tensor& some, const std::vector<int64_t>& places) {
    const auto positions = at::tensor(places, at::kLong);
    return models::draw_negatives(some, positions, at::full({positions.numel()}, 7, at::kLong), 1,
                                  40, 6, context);
  };
  const auto whole = of(ids, {0, 1, 4, 6});
  context.samples = context.samples.narrow(0, 1, 1);
  const auto second = of(ids.narrow(0, 1, 1).narrow(1, 0, 3), {0, 2});
  EXPECT_TRUE(at::equal(whole.narrow(0, 2, 2), second));
  EXPECT_FALSE(at::equal(whole[0], whole[2]));
  EXPECT_FALSE(at::equal(whole[0], whole[1]));
}

}  // namespace
}  // namespace convoy::nn
