#include "convoy/nn/losses/cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>

#include "convoy/nn/losses/ranking.h"
#include "tests/comm/ranks_testing.h"
#include "tests/nn/peak_memory.h"
#include "tests/nn/testing.h"

namespace convoy::nn {
namespace {

/// Loss, gradient of h, gradient of the table by torch's own operations in `dtype`.
std::vector<at::Tensor> by_torch(const at::Tensor& h, const at::Tensor& table,
                                 const at::Tensor& targets, double temperature,
                                 at::ScalarType dtype) {
  auto h2 = h.detach().to(dtype, false, /*copy=*/true).requires_grad_(true);
  auto e2 = table.to(dtype, false, /*copy=*/true).requires_grad_(true);
  auto scores = at::mm(h2, e2.narrow(0, 1, e2.size(0) - 1).t()) / temperature;
  auto loss = at::cross_entropy_loss(scores, targets - 1, {}, at::Reduction::Sum);
  backward(loss * 2);
  return {loss.detach(), h2.grad(), e2.grad()};
}

double error_of(const at::Tensor& got, const at::Tensor& exact) {
  return ((got - exact).abs().max() / exact.abs().max()).item<double>();
}

/// No further from the exact loss and gradients than twice torch in fp32.
void expect_like_torch(int64_t rows, int64_t num_ids, double temperature) {
  SCOPED_TRACE(testing::Message() << rows << " rows, " << num_ids << " ids");
  auto h = at::randn({rows, 4}).requires_grad_(true);
  auto e = at::randn({num_ids, 4});
  auto targets = at::randint(1, num_ids, {rows}, at::kLong);
  auto table = param(e.clone());
  auto loss = cross_entropy(h, table, targets, {temperature}).loss;
  backward(loss * 2);
  const auto exact = by_torch(h, e, targets, temperature, at::kDouble);
  const auto fp32 = by_torch(h, e, targets, temperature, at::kFloat);
  const std::vector<at::Tensor> ours{loss.detach(), h.grad(), table->grad()};
  for (size_t i = 0; i < ours.size(); ++i) {
    EXPECT_LE(error_of(ours[i], exact[i]), 2 * error_of(fp32[i], exact[i]) + 2e-7) << i;
  }
  at::NoGradGuard no_grad;
  EXPECT_EQ(cross_entropy(h, table, targets, {temperature}).loss.item<float>(), loss.item<float>());
  auto scores = at::mm(h, e.narrow(0, 1, num_ids - 1).t()) / temperature;
  expect_close(tied_scores(h.detach(), table, temperature), scores);
}

TEST(CrossEntropy, IsTorchsWithoutThePaddingIdWhateverThePieces) {
  expect_like_torch(5, 9, 0.7);
  expect_like_torch(5, 17, 1.0);       // one whole vector of scores
  expect_like_torch(1300, 2500, 1.0);  // three pieces, the last one short
}

/// bf16 weights whose gradient is fp32, as flat buffers have them.
ParamPtr bf16_param(const at::Tensor& value, bool trainable = true) {
  ParamSpec spec{"p", value.sizes().vec(), Init::zeros()};
  spec.trainable = trainable;
  auto made = std::make_shared<Param>(spec);
  made->bind_value(value.to(at::kBFloat16));
  made->bind_grad(at::full(value.sizes(), 77.0));
  return made;
}

TEST(CrossEntropy, Bf16ScoresStayNearTheExactLoss) {
  at::manual_seed(1);  // how near depends on the draw
  for (const auto& [rows, num_ids] : {std::pair{5, 9}, {5, 17}, {1300, 2500}}) {
    SCOPED_TRACE(rows);
    const auto h = at::randn({rows, 8}).to(at::kBFloat16).requires_grad_(true);
    const auto table = bf16_param(at::randn({num_ids, 8}));
    const auto targets = at::randint(1, num_ids, {rows}, at::kLong);
    const auto loss = cross_entropy(h, table, targets, {0.7}).loss;
    backward(loss * 2);
    const auto exact = by_torch(h, table->value().to(at::kDouble), targets, 0.7, at::kDouble);
    EXPECT_LE(error_of(loss.detach(), exact[0]), 2e-3);
    EXPECT_LE(error_of(h.grad().to(at::kDouble), exact[1]), 2e-2);
    EXPECT_LE(error_of(table->grad().to(at::kDouble), exact[2]), 2e-2);

    // The same from a frozen table, and onto what another loss left.
    const auto frozen = bf16_param(table->value(), /*trainable=*/false);
    const auto h2 = h.detach().clone().requires_grad_(true);
    backward(cross_entropy(h2, frozen, targets, {0.7}).loss * 2);
    EXPECT_TRUE(h2.grad().equal(h.grad()));
    EXPECT_TRUE(frozen->grad().equal(at::full({num_ids, 8}, 77.0)));
    const auto once = table->grad().clone();
    backward(cross_entropy(h2, table, targets, {0.7}).loss * 2);
    EXPECT_LE(error_of(table->grad(), 2 * once), 1e-5);
  }
}

TEST(CrossEntropy, ASureBf16SoftmaxHasASlope) {
  // exp(-9) of warning is far below what bf16 can tell from one.
  const auto h = at::tensor({9.0f}).view({1, 1}).to(at::kBFloat16).requires_grad_(true);
  const auto table = bf16_param(at::tensor({5.0f, 1.0f, 0.0f}).view({3, 1}));
  backward(cross_entropy(h, table, at::ones({1}, at::kLong), {}).loss);
  const double warning = 1 / (1 + std::exp(9.0));
  EXPECT_NEAR(table->grad()[2][0].item<double>() / (9 * warning), 1, 1e-2);
  EXPECT_NEAR(table->grad()[1][0].item<double>() / (9 * -warning), 1, 1e-2);
  EXPECT_EQ(table->grad()[0][0].item<double>(), 0);
}

TEST(CrossEntropy, TakesTheMemoryOfAGpuWhileAskedTo) {
  constexpr int64_t kRows = 300, kIds = 5000, kTimes = 4;
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto h = at::randn({kRows, 4}).to(dtype);
    const auto targets = at::randint(1, kIds, {kRows}, at::kLong);
    const auto peak = [&] {
      const auto table = param(at::randn({kIds, 4}));
      table->bind_value(table->value().to(dtype));
      const PeakMemory memory;
      cross_entropy(h, table, targets);
      return memory.peak();
    };
    const auto here = peak();
    const ScoresOfGpu scores(kTimes);
    // The scores, which become the slopes, in the place of the scores here.
    const auto of_score = static_cast<int64_t>(at::elementSize(dtype));
    const auto more = kTimes * kRows * 5056 * of_score - kRows * (kIds - 1) * of_score;
    EXPECT_EQ(peak() - here, more) << dtype;
    ::setenv("CONVOY_GPU_KERNELS", "0", 1);  // then the softmax is another tensor
    EXPECT_EQ(peak() - here, more + kTimes * kRows * 5056 * of_score) << dtype;
    ::unsetenv("CONVOY_GPU_KERNELS");
  }
}

TEST(CrossEntropy, PiecesOnAGpuAreLargeAndBounded) {
  EXPECT_EQ(score_rows_at_once(10000, at::kCPU), 512);
  EXPECT_EQ(score_rows_at_once(10000, at::kCUDA), (512 << 20) / 40000);
  EXPECT_EQ(score_rows_at_once(int64_t{1} << 40, at::kCUDA), 1);
  // GPT-2: seven pieces of one size, where 2,668 rows at once left 360 to the last.
  EXPECT_EQ(even_score_rows(16368, 50304, at::kCUDA), 2432);
  EXPECT_EQ(even_score_rows(2000, 50304, at::kCUDA), 2000);
  EXPECT_EQ(even_score_rows(2700, 50304, at::kCUDA), 1408);
  EXPECT_EQ(even_score_rows(0, 50304, at::kCUDA), 1);
  EXPECT_EQ(even_score_rows(3, int64_t{1} << 40, at::kCUDA), 1);
  EXPECT_EQ(even_score_rows(16368, 10000, at::kCPU), 512);
}

TEST(CrossEntropy, BuffersNoMoreThanAPieceOfTheScores) {
  // 40 rows of 2 million scores would take 320 MB; pieces take at most 128 MiB.
  auto table = param(at::randn({2000001, 1}));
  auto h = at::randn({40, 1});
  at::NoGradGuard no_grad;
  auto loss = cross_entropy(h, table, at::ones({40}, at::kLong)).loss;
  auto scores = at::mm(h, table->value().narrow(0, 1, 2000000).t());
  auto expected = (at::logsumexp(scores, 1) - scores.select(1, 0)).sum();
  EXPECT_NEAR(loss.item<double>() / expected.item<double>(), 1, 1e-5);
}

TEST(Ranking, CountsWhatIsBetterAndBreaksTiesById) {
  auto table = param(at::tensor({9., 1., 3., 2., 3., NAN}, at::kFloat).view({6, 1}));
  auto h = at::ones({4, 1});
  auto ranks = tied_ranks(h, table, at::tensor({2, 4, 1, 5}, at::kLong));
  EXPECT_TRUE(at::equal(ranks, at::tensor({2, 3, 5, 5}, at::kLong))) << ranks;
  EXPECT_EQ(tied_ranks(h.narrow(0, 0, 1), table, at::tensor({2}, at::kLong), 0).item<int64_t>(), 3);
  EXPECT_EQ(tied_ranks(h.narrow(0, 0, 0), table, at::empty({0}, at::kLong)).numel(), 0);
}

// The k-th best is the one whose rank is k, whatever ties.
TEST(Ranking, BestColumnsAreInTheOrderOfRanks) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    auto table = param(at::randint(-3, 4, {300, 2}).to(type));
    auto h = at::randint(-3, 4, {20, 2}).to(type);
    const auto scores = tied_scores(h, table, 1);
    for (const int64_t k : {1, 7, 298, 299, 500}) {
      const auto best = best_columns(scores, k);
      ASSERT_EQ(best.columns.size(1), std::min<int64_t>(k, 299));
      EXPECT_TRUE(at::equal(best.scores, scores.gather(1, best.columns)));
      for (int64_t place = 0; place < best.columns.size(1); ++place) {
        const auto ranks = tied_ranks(h, table, best.columns.select(1, place) + 1);
        ASSERT_TRUE((ranks == place + 1).all().item<bool>()) << k << " " << place;
      }
    }
  }
  const auto odd = at::tensor({1., 3., NAN, 3., 3.}, at::kFloat).view({1, 5});
  EXPECT_TRUE(at::equal(best_columns(odd, 3).columns[0], at::tensor({2, 1, 3}, at::kLong)));
}

// Of 16 bits the scores of many ids are equal that prediction tells apart.
TEST(Ranking, AccuracyOfBf16IsThatOfRanks) {
  constexpr int64_t kIds = 3000, kRows = 300;
  const at::NoGradGuard no_grad;
  const auto table = param(at::randn({kIds, 8}).to(at::kBFloat16));
  const auto h = at::randn({kRows, 8}).to(at::kBFloat16);
  auto targets = best_columns(tied_scores(h, table, 1), 2).columns.select(1, 0) + 1;
  targets.narrow(0, 0, 100).copy_(at::randint(1, kIds, {100}, at::kLong));
  CrossEntropyOptions options{.first_id = 1};
  options.count_correct = true;
  const auto correct = cross_entropy(h, table, targets, options).correct.item<int64_t>();
  EXPECT_EQ(correct, (tied_ranks(h, table, targets) == 1).sum().item<int64_t>());
  EXPECT_GE(correct, kRows - 100);
  const auto rounded = at::mm(h, table->value().narrow(0, 1, kIds - 1).t()).argmax(1) + 1;
  EXPECT_LT((rounded == targets).sum().item<int64_t>(), correct) << "else this tells nothing";
  options.bias = param(at::randn({kIds}));
  const auto scores = tied_scores(h, table, 1) + options.bias->value().narrow(0, 1, kIds - 1);
  const auto likely = scores.argmax(1) + 1;
  EXPECT_EQ(cross_entropy(h, table, likely, options).correct.item<int64_t>(), kRows);
}

/// Whole numbers: products are exact in bf16, too, and many scores tie.
TEST(Ranking, AccuracyCountsTheFirstOfEqualScoresInEveryLoss) {
  constexpr int64_t kIds = 61, kRows = 400;
  const auto values = at::randint(-2, 3, {kIds, 2}).to(at::kFloat);
  const auto states = at::randint(-2, 3, {kRows, 2}).to(at::kFloat);
  const auto targets = at::randint(1, kIds, {kRows}, at::kLong);
  const auto bias = at::randint(-1, 2, {kIds}).to(at::kFloat);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const at::NoGradGuard no_grad;
    const auto table = param(values.to(type));
    const auto h = states.to(type);
    CrossEntropyOptions options{.first_id = 1};
    options.count_correct = true;
    const auto correct = cross_entropy(h, table, targets, options).correct.item<int64_t>();
    EXPECT_EQ(correct, (tied_ranks(h, table, targets) == 1).sum().item<int64_t>());
    const auto best = best_columns(tied_scores(h, table, 1), 1).columns.squeeze(1) + 1;
    EXPECT_EQ(correct, (best == targets).sum().item<int64_t>());
    EXPECT_GT(correct, 0);
    options.bias = param(bias);
    const auto scores = at::mm(states, values.t()) + bias;
    const auto first = std::get<1>(scores.narrow(1, 1, kIds - 1).max(1)) + 1;
    EXPECT_EQ(cross_entropy(h, table, targets, options).correct.item<int64_t>(),
              (first == targets).sum().item<int64_t>());
    comm::run_thread_ranks(3, [&](comm::Group group) {
      const at::NoGradGuard each;
      const auto cut = [&](const at::Tensor& whole) {
        ParamSpec spec{"p", whole.sizes().vec(), Init::zeros()};
        spec.cut = {0};
        auto made = std::make_shared<Param>(spec);
        made->cut({group.rank(), group.size()});
        made->bind_value(whole.narrow(0, made->begin(), made->shape()[0]).clone());
        return made;
      };
      CrossEntropyOptions shared{.first_id = 1};
      shared.count_correct = true;
      shared.ranks = TensorRanks(group);
      const auto part = cut(values.to(type));
      EXPECT_EQ(cross_entropy(h, part, targets, shared).correct.item<int64_t>(), correct);
      EXPECT_TRUE(at::equal(tied_ranks(h, part, targets, 1, group), tied_ranks(h, table, targets)));
    });
  }
}

TEST(Ranking, PiecesChangeNothing) {
  // Whole numbers: products are exact however they are cut, and many scores tie.
  auto table = param(at::randint(-9, 10, {2500, 3}).to(at::kFloat));
  auto h = at::randint(-9, 10, {1300, 3}).to(at::kFloat);
  auto targets = at::randint(1, 2500, {1300}, at::kLong);
  auto scores = tied_scores(h, table, 1);
  auto column = (targets - 1).unsqueeze(1);
  auto own = scores.gather(1, column);
  auto ties = (scores == own) & (at::arange(2499, at::kLong) < column);
  EXPECT_TRUE(at::equal(tied_ranks(h, table, targets), 1 + (scores > own).sum(1) + ties.sum(1)));
}

TEST(CrossEntropy, GradientGoesStraightIntoTheTable) {
  const int64_t V = 20000, D = 16, N = 8;
  auto table = param(at::randn({V, D}));
  auto h = at::randn({N, D}).requires_grad_(true);
  auto targets = at::randint(0, V, {N}, at::kLong);
  PeakMemory memory;
  backward(cross_entropy(h, table, targets, {.first_id = 0}).loss);
  EXPECT_LT(memory.peak(), V * D * 4);
}

TEST(CrossEntropy, AddsToWhatTheTableHasAlready) {
  auto e = at::randn({9, 4}), h = at::randn({5, 4});
  auto targets = at::randint(0, 9, {5}, at::kLong);
  auto once = param(e.clone()), twice = param(e.clone());
  auto loss_of = [&](const ParamPtr& table) {
    return cross_entropy(h.clone().requires_grad_(true), table, targets, {.first_id = 0}).loss;
  };
  backward(loss_of(once) * 3);
  auto first = loss_of(twice), second = loss_of(twice);
  backward(first);
  backward(second * 2);
  expect_close(once->grad(), twice->grad());
}

TEST(CrossEntropy, AddsABiasAndCountsCorrectTargets) {
  auto h = at::randn({6, 4}).requires_grad_(true);
  auto e = at::randn({9, 4}), b = at::randn({9});
  auto table = param(e.clone()), bias = param(b.clone());
  auto targets = at::randint(0, 9, {6}, at::kLong);
  CrossEntropyOptions options{.first_id = 0, .bias = bias, .count_correct = true};
  auto ours = cross_entropy(h, table, targets, options);
  backward(ours.loss * 2);
  auto h2 = h.detach().clone().requires_grad_(true);
  auto e2 = e.clone().requires_grad_(true), b2 = b.clone().requires_grad_(true);
  auto scores = at::mm(h2, e2.t()) + b2;
  auto loss = at::cross_entropy_loss(scores, targets, {}, at::Reduction::Sum);
  backward(loss * 2);
  expect_close(ours.loss, loss);
  expect_close(h.grad(), h2.grad());
  expect_close(table->grad(), e2.grad());
  expect_close(bias->grad(), b2.grad());
  EXPECT_EQ(ours.correct.item<int64_t>(), (scores.argmax(1) == targets).sum().item<int64_t>());
}

TEST(CrossEntropy, NoTargetsGiveZeroLossAndGradient) {
  auto table = param(at::randn({9, 4}));
  auto h = at::randn({0, 4}).requires_grad_(true);
  auto loss = cross_entropy(h, table, at::zeros({0}, at::kLong)).loss;
  backward(loss);
  EXPECT_EQ(loss.item<float>(), 0);
  expect_close(table->grad(), at::zeros({9, 4}));
}

TEST(CrossEntropy, SoftmaxIsExactOverTheWholeRangeOfScores) {
  auto scores = at::linspace(-80, 60, 37).repeat({2, 1}).contiguous();
  auto exact = at::softmax(scores.to(at::kDouble), 1);
  auto loss = softmax_loss(scores, at::tensor({36, 0}, at::kLong), 1);
  EXPECT_NEAR(loss.losses[1].item<double>(), -std::log(exact[1][0].item<double>()), 1e-5);
  auto softmax = scores * loss.scales.unsqueeze(1);
  auto error = ((softmax - exact).abs() / exact.clamp_min(1e-30)).max();
  EXPECT_LT(error.item<double>(), 1e-5);  // what fp32 makes of a difference of 140
}

TEST(CrossEntropy, ANumberThatIsNoneShowsInTheLoss) {
  for (double bad : {std::nan(""), HUGE_VAL}) {
    for (int64_t at : {int64_t{3}, int64_t{18}}) {  // in the vectors and in the rest
      auto scores = at::zeros({1, 20});
      scores[0][at] = bad;
      EXPECT_FALSE(
          std::isfinite(softmax_loss(scores, at::zeros({1}, at::kLong), 1).losses.item<double>()));
    }
  }
}

}  // namespace
}  // namespace convoy::nn
