#include "convoy/nn/losses/sampled_softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "convoy/nn/losses/cross_entropy.h"
#include "tests/nn/testing.h"

namespace convoy::nn {
namespace {

class Sampler : public testing::TestWithParam<const char*> {
 protected:
  /// Of popularity by weights that know no order, some of them so large that their ids are certain.
  static NegativeSampler sampler_of(int64_t num_ids, int64_t count) {
    if (GetParam() != std::string("popularity")) {
      return NegativeSampler(1, num_ids, count, GetParam());
    }
    std::vector<double> weights;
    for (int64_t id = 1; id < num_ids; ++id) {
      weights.push_back(id % 50 == 7 ? 1e5 : std::pow(1 + id * 37 % 101, 0.75));
    }
    return NegativeSampler(1, weights, count);
  }
};

TEST_P(Sampler, DrawsEachIdAsOftenAsItsProbabilitySays) {
  constexpr int64_t kIds = 301, kCount = 40, kDraws = 100000;
  const auto sampler = sampler_of(kIds, kCount);
  std::vector<int64_t> times(kIds);
  for (int64_t step = 0; step < kDraws; ++step) {
    const auto drawn = sampler.draw(7, step);
    ASSERT_EQ(drawn.numel(), kCount);
    const auto* ids = drawn.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_TRUE(i == 0 || ids[i] > ids[i - 1]) << "all different";
      ++times[static_cast<size_t>(ids[i])];
    }
  }
  EXPECT_EQ(times[0], 0) << "padding";
  double sum = 0;
  for (int64_t id = 1; id < kIds; ++id) {
    const double p = sampler.probability(id), n = kDraws;
    sum += p;
    const double deviation = std::sqrt(n * p * (1 - p));
    EXPECT_LE(std::abs(static_cast<double>(times[static_cast<size_t>(id)]) - n * p),
              4.5 * deviation + 0.5)
        << id;
  }
  EXPECT_NEAR(sum, kCount, 1e-9);
  const auto ids = at::arange(1, kIds, at::kLong);
  const auto logs = sampler.log_probabilities(ids);
  for (int64_t id : {1, 2, 3, 20, 300}) {
    EXPECT_NEAR(logs[id - 1].item<double>(), std::log(sampler.probability(id)), 1e-6);
  }
}

TEST_P(Sampler, DrawingAllIdsGivesTheLossOfTheSoftmax) {
  const auto table = at::randn({50, 8}), targets = at::randint(1, 50, {33}, at::kLong);
  const auto states = at::randn({33, 8});
  Context context;
  const auto outcome = [&](auto loss_of) {
    auto h = states.clone().requires_grad_(true);
    const auto e = param(table.clone());
    const auto loss = loss_of(h, e);
    backward(loss * 3);
    return std::vector<at::Tensor>{loss.detach(), h.grad(), e->grad()};
  };
  const auto sampler = sampler_of(50, 1000);
  EXPECT_EQ(sampler.count(), 49);
  const auto sampled = outcome([&](const at::Tensor& h, const ParamPtr& e) {
    return sampled_cross_entropy(h, e, targets, sampler, {0.7}, context);
  });
  const auto whole = outcome([&](const at::Tensor& h, const ParamPtr& e) {
    return cross_entropy(h, e, targets, {.temperature = 0.7}).loss;
  });
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_LE((sampled[i] - whole[i]).abs().max().item<double>(),
              1e-6 * whole[i].abs().max().item<double>())
        << i;
  }
}

TEST_P(Sampler, DrawingSomeIdsGivesTheFormulasLossInTorch) {
  const auto sampler = sampler_of(400, 25);
  Context context;
  context.seed = 3;
  context.step = 11;
  const auto drawn = sampler.draw(3, 11);
  auto targets = at::randint(1, 400, {60}, at::kLong);
  targets.narrow(0, 0, 25).copy_(drawn);  // rows whose target is among the negatives
  const auto states = at::randn({60, 8}), table = at::randn({400, 8});
  auto h = states.clone().requires_grad_(true);
  const auto e = param(table.clone());
  const auto loss = sampled_cross_entropy(h, e, targets, sampler, {1.3}, context);
  backward(loss);

  auto h2 = states.to(at::kDouble).requires_grad_(true);
  auto e2 = table.to(at::kDouble).requires_grad_(true);
  const auto corrected = [&](const at::Tensor& scores, const at::Tensor& ids) {
    return scores / 1.3 - sampler.log_probabilities(ids).to(at::kDouble);
  };
  const auto own = corrected((h2 * e2.index_select(0, targets)).sum(1), targets);
  auto others = corrected(at::mm(h2, e2.index_select(0, drawn).t()), drawn);
  others = others.masked_fill(targets.unsqueeze(1) == drawn, -HUGE_VAL);
  const auto expected = (at::logsumexp(at::cat({own.unsqueeze(1), others}, 1), 1) - own).sum();
  backward(expected);
  EXPECT_NEAR(loss.item<double>() / expected.item<double>(), 1, 1e-6);
  expect_close(h.grad().to(at::kDouble), h2.grad());
  expect_close(e->grad().to(at::kDouble), e2.grad());
}

INSTANTIATE_TEST_SUITE_P(Kinds, Sampler, testing::Values("uniform", "log_uniform", "popularity"));

TEST(PopularitySampler, IsProportionalToTheWeights) {
  const NegativeSampler sampler(1, {1, 2, 4, 1000, 3}, 3);
  EXPECT_NEAR(sampler.probability(4), 1, 1e-12);
  for (const auto& [id, weight] : {std::pair{1, 1}, {2, 2}, {3, 4}, {5, 3}}) {
    EXPECT_NEAR(sampler.probability(id), 2.0 * weight / 10, 1e-12) << id;
  }
}

}  // namespace
}  // namespace convoy::nn
