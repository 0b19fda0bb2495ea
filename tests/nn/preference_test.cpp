#include "convoy/nn/losses/preference.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "tests/comm/ranks_testing.h"
#include "tests/nn/testing.h"

// Losses of pairs of answers and their gradients against torch's autograd.
namespace convoy::nn {
namespace {

constexpr int64_t kIds = 40, kWidth = 8, kRows = 23;

/// Three pairs, whose answers have some targets each.
struct Case {
  at::Tensor h = at::randn({kRows, kWidth}), table = at::randn({kIds, kWidth});
  at::Tensor targets = at::randint(0, kIds, {kRows}, at::kLong);
  PreferencePairs pairs{
      at::tensor({0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5}, at::kLong),
      -10 * at::rand({3, 2}, at::kDouble)};
};

struct Torchs {
  at::Tensor loss, h_grad, table_grad, log_probs;
};

Torchs by_torch(const Case& given, const PreferenceOptions& options) {
  const auto h = given.h.to(at::kDouble).requires_grad_(true);
  const auto table = given.table.to(at::kDouble).requires_grad_(true);
  const auto all = at::log_softmax(at::mm(h, table.t()), 1);
  const auto own = all.gather(1, given.targets.unsqueeze(1)).squeeze(1);
  const auto answers = given.pairs.answers;
  const auto sums = at::zeros({6}, at::kDouble).index_add(0, answers, own).view({3, 2});
  const auto lengths = at::bincount(answers).view({3, 2});
  const auto gains = sums - given.pairs.reference;
  const auto margin = options.beta * (gains.select(1, 0) - gains.select(1, 1));
  const double s = options.label_smoothing;
  const auto agree = -at::log_sigmoid(margin), differ = -at::log_sigmoid(-margin);
  at::Tensor losses = (1 - s) * agree + s * differ;
  if (options.loss_type == "robust") losses = ((1 - s) * agree - s * differ) / (1 - 2 * s);
  if (options.loss_type == "ipo") {
    const auto means = gains / lengths;
    losses = (means.select(1, 0) - means.select(1, 1) - 0.5 / options.beta).square();
  }
  backward(losses.sum() * 2);
  return {losses.sum().detach(), h.grad(), table.grad(), sums.detach()};
}

const std::vector<PreferenceOptions> kAll{
    {"sigmoid", 0.1, 0}, {"sigmoid", 0.7, 0.3}, {"robust", 0.3, 0.2}, {"ipo", 0.4, 0}};

TEST(Preference, LossAndGradientsAreThoseOfAutograd) {
  const Case given;
  for (const auto& options : kAll) {
    SCOPED_TRACE(options.loss_type);
    const auto torchs = by_torch(given, options);
    const auto h = given.h.clone().requires_grad_(true);
    const auto table = param(given.table.clone());
    const auto out =
        preference_loss(h, table, given.targets, given.pairs, options, {.first_id = 0});
    backward(out.loss * 2);
    EXPECT_NEAR(out.loss.item<double>() / torchs.loss.item<double>(), 1, 1e-6);
    EXPECT_TRUE(at::allclose(out.log_probs, torchs.log_probs, 1e-6, 1e-5));
    expect_grads_near({{h.grad(), torchs.h_grad}, {table->grad(), torchs.table_grad}}, 1e-5);

    // In evaluation, and from a table that does not learn.
    {
      const at::NoGradGuard no_grad;
      const auto plain =
          preference_loss(h, table, given.targets, given.pairs, options, {.first_id = 0});
      EXPECT_EQ(plain.loss.item<float>(), out.loss.item<float>());
      EXPECT_TRUE(plain.metrics.equal(out.metrics));
    }
    ParamSpec spec{"p", table->value().sizes().vec(), Init::zeros()};
    spec.trainable = false;
    const auto frozen = std::make_shared<Param>(spec);
    frozen->bind_value(given.table.clone());
    const auto h2 = given.h.clone().requires_grad_(true);
    backward(
        preference_loss(h2, frozen, given.targets, given.pairs, options, {.first_id = 0}).loss * 2);
    expect_grads_near({{h2.grad(), torchs.h_grad}}, 1e-5);
  }
}

TEST(Preference, Bf16StaysNearTorchsFp32) {
  at::manual_seed(3);  // how near depends on the draw
  Case given;
  given.h = given.h.to(at::kBFloat16).to(at::kFloat);
  given.table = given.table.to(at::kBFloat16).to(at::kFloat);
  for (const auto& options : kAll) {
    SCOPED_TRACE(options.loss_type);
    const auto torchs = by_torch(given, options);
    const auto h = given.h.to(at::kBFloat16).requires_grad_(true);
    const auto table =
        std::make_shared<Param>(ParamSpec{"p", given.table.sizes().vec(), Init::zeros()});
    table->bind_value(given.table.to(at::kBFloat16));
    table->bind_grad(at::full(given.table.sizes(), 77.0));
    const auto out =
        preference_loss(h, table, given.targets, given.pairs, options, {.first_id = 0});
    backward(out.loss * 2);
    EXPECT_NEAR(out.loss.item<double>() / torchs.loss.item<double>(), 1, 2e-2);
    expect_grads_near({{h.grad().to(at::kDouble), torchs.h_grad},
                       {table->grad().to(at::kDouble), torchs.table_grad}},
                      3e-2);
  }
}

TEST(Preference, RanksThatShareTheTableGiveTheSame) {
  const Case given;
  for (const auto& options : kAll) {
    const auto torchs = by_torch(given, options);
    comm::run_thread_ranks(3, [&](const comm::Group& group) {
      const at::AutoGradMode grad(true);
      ParamSpec spec{"p", given.table.sizes().vec(), Init::zeros()};
      spec.cut = {0};
      const auto part = std::make_shared<Param>(spec);
      part->cut({group.rank(), group.size()});
      const auto cut = [&](const at::Tensor& whole) {
        return whole.narrow(0, part->begin(), part->shape()[0]).clone();
      };
      part->bind_value(cut(given.table));
      part->bind_grad(at::full_like(part->value(), 77));
      const auto h = given.h.clone().requires_grad_(true);
      CrossEntropyOptions shared{.first_id = 0};
      shared.ranks = TensorRanks(group);
      const auto out = preference_loss(h, part, given.targets, given.pairs, options, shared);
      backward(out.loss * 2);
      EXPECT_NEAR(out.loss.item<double>() / torchs.loss.item<double>(), 1, 1e-6);
      expect_grads_near({{h.grad(), torchs.h_grad}, {part->grad(), cut(torchs.table_grad)}}, 1e-5);
    });
  }
}

TEST(Preference, MetricsAreSumsOfRewardsAndLogProbabilities) {
  const Case given;
  const at::NoGradGuard no_grad;
  const auto out = preference_loss(given.h, param(given.table.clone()), given.targets, given.pairs,
                                   {"sigmoid", 0.5, 0}, {.first_id = 0});
  const auto rewards = 0.5 * (out.log_probs - given.pairs.reference);
  const auto chosen = rewards.select(1, 0), rejected = rewards.select(1, 1);
  const auto expected = at::stack(
      {(chosen > rejected).sum().to(at::kDouble), (chosen - rejected).sum(), chosen.sum(),
       rejected.sum(), out.log_probs.select(1, 0).sum(), out.log_probs.select(1, 1).sum()});
  ASSERT_EQ(nn::preference_metrics().size(), 6u);
  EXPECT_EQ(nn::preference_metrics()[1], "rewards/margins");
  EXPECT_TRUE(at::allclose(out.metrics, expected, 1e-12, 1e-12));
}

TEST(CrossEntropy, CountsARowByItsWeight) {
  const Case given;
  const auto weights = at::rand({kRows}) - 0.3;
  const auto h = given.h.clone().requires_grad_(true);
  const auto table = param(given.table.clone());
  const auto out = cross_entropy(h, table, given.targets,
                                 {.first_id = 0, .keep_losses = true, .weights = weights});
  backward(out.loss);
  const auto h2 = given.h.to(at::kDouble).requires_grad_(true);
  const auto table2 = given.table.to(at::kDouble).requires_grad_(true);
  const auto losses =
      at::cross_entropy_loss(at::mm(h2, table2.t()), given.targets, {}, at::Reduction::None);
  backward((losses * weights.to(at::kDouble)).sum());
  EXPECT_TRUE(at::allclose(out.losses.to(at::kDouble), losses.detach(), 1e-5, 1e-6));
  expect_grads_near({{h.grad(), h2.grad()}, {table->grad(), table2.grad()}}, 1e-5);
}

}  // namespace
}  // namespace convoy::nn
