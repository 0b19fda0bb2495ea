#include "convoy/models/session/in_batch_negatives.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/nn/testing.h"

namespace convoy::models {
namespace {

using nn::backward;

constexpr int64_t kBatchIds = 40, kBatchTargets = 60;

/// Softmax over all instances of the batch by plain loops: an instance of the target's own item is
/// no negative, another item is one as often as it is there.
at::Tensor by_instances(const at::Tensor& h, const at::Tensor& table, const at::Tensor& targets,
                        const at::Tensor& of_step, const std::vector<int64_t>& counts,
                        double temperature) {
  double sum = 0;
  for (size_t id = 1; id < counts.size(); ++id) sum += static_cast<double>(counts[id]);
  const auto corrected = [&](const at::Tensor& state, int64_t id) {
    const double share = static_cast<double>(counts[static_cast<size_t>(id)]) / sum;
    return (state * table[id]).sum() / temperature - std::log(share);
  };
  auto loss = at::zeros({}, at::kDouble);
  for (int64_t i = 0; i < targets.size(0); ++i) {
    const int64_t own = targets[i].item<int64_t>();
    std::vector<at::Tensor> scores{corrected(h[i], own)};
    for (int64_t j = 0; j < of_step.size(0); ++j) {
      const int64_t other = of_step[j].item<int64_t>();
      if (other != own) scores.push_back(corrected(h[i], other));
    }
    loss = loss + at::logsumexp(at::stack(scores), 0) - scores.front();
  }
  return loss;
}

TEST(InBatchNegatives, AreTheOtherTargetsOfTheStep) {
  std::vector<int64_t> counts;
  for (int64_t id = 0; id < kBatchIds; ++id) counts.push_back(1 + id * 7 % 13);
  const auto of_step = at::randint(1, kBatchIds, {kBatchTargets}, at::kLong);
  const auto targets = of_step.narrow(0, 20, 25);  // of one micro-batch
  const auto states = at::randn({25, 8}), rows = at::randn({kBatchIds, 8});
  auto h = states.clone().requires_grad_(true);
  const auto table = nn::param(rows.clone());
  const InBatchNegatives negatives(counts, kBatchIds);
  const auto step = nn::StepIds::of(of_step);
  const auto loss = nn::sampled_cross_entropy(h, table, targets, negatives.of(step, targets),
                                              {.temperature = 1.3}, {});
  backward(loss);
  auto exact_h = states.to(at::kDouble).requires_grad_(true);
  auto exact_table = rows.to(at::kDouble).requires_grad_(true);
  const auto exact = by_instances(exact_h, exact_table, targets, of_step, counts, 1.3);
  backward(exact);
  EXPECT_NEAR(loss.item<double>() / exact.item<double>(), 1, 1e-6);
  nn::expect_grads_near({{h.grad(), exact_h.grad()}, {table->grad(), exact_table.grad()}}, 2e-6);
}

TEST(InBatchNegatives, GiveNoLossWhereAllTargetsAreOneItem) {
  auto h = at::randn({3, 8}).requires_grad_(true);
  const auto table = nn::param(at::randn({kBatchIds, 8}));
  const auto targets = at::full({3}, 7, at::kLong);
  const InBatchNegatives negatives({}, kBatchIds);
  const auto step = nn::StepIds::of(targets);
  EXPECT_EQ(step.counts[0].item<int64_t>(), 3);
  const auto loss =
      nn::sampled_cross_entropy(h, table, targets, negatives.of(step, targets), {}, {});
  backward(loss);
  EXPECT_EQ(loss.item<double>(), 0);
  EXPECT_EQ(table->grad().abs().max().item<double>(), 0);
}

}  // namespace
}  // namespace convoy::models
