#include "convoy/tasks/session/target_metrics.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/comm/ranks_testing.h"

namespace convoy::tasks {
namespace {

nn::Bundle told(const at::Tensor& predictions, const at::Tensor& answers) {
  return {{"prediction.click", predictions}, {"answer.click", answers}};
}

TEST(TargetMetrics, AreWhatPairsOfRowsSay) {
  const auto predictions = (at::rand({300}) * 20).round() / 20;  // with ties
  auto answers = (at::rand({300}) < predictions).to(at::kFloat);
  answers[7] = NAN;  // does not count
  double pairs = 0, in_order = 0, right = 0, said = 0, ones = 0, hits = 0;
  for (int64_t i = 0; i < 300; ++i) {
    if (i == 7) continue;
    const auto p = predictions[i].item<float>(), a = answers[i].item<float>();
    right += (p >= 0.5F) == (a == 1);
    said += p >= 0.5F;
    ones += a;
    hits += p >= 0.5F && a == 1;
    for (int64_t j = 0; j < 300; ++j) {
      const auto q = predictions[j].item<float>();
      if (j == 7 || a != 1 || answers[j].item<float>() != 0) continue;
      ++pairs;
      in_order += p > q ? 1 : p == q ? 0.5 : 0;
    }
  }
  // On three ranks, one of which has no rows.
  comm::run_thread_ranks(3, [&](const comm::Group& group) {
    TargetMetrics metrics({"click", /*binary=*/true});
    if (group.rank() < 2) {
      for (int64_t part = group.rank(); part < 6; part += 2) {
        metrics.add(told(predictions.narrow(0, part * 50, 50), answers.narrow(0, part * 50, 50)));
      }
    }
    metrics.reduce(group);
    const auto values = metrics.values("eval_");
    EXPECT_NEAR(values.at("eval_click_auc"), in_order / pairs, 1e-12);
    EXPECT_NEAR(values.at("eval_click_accuracy"), right / 299, 1e-12);
    EXPECT_NEAR(values.at("eval_click_precision"), hits / said, 1e-12);
    EXPECT_NEAR(values.at("eval_click_recall"), hits / ones, 1e-12);
  });
}

TEST(TargetMetrics, NumbersGiveTheMeanSquaredErrorAndItsRoot) {
  TargetMetrics metrics({"click", /*binary=*/false});
  metrics.add(told(at::tensor({1.0F, 2.0F}), at::tensor({4.0F, 2.0F})));
  metrics.add(told(at::tensor({-1.0F}), at::tensor({3.0F})));
  metrics.reduce(comm::Group());
  EXPECT_NEAR(metrics.values("").at("click_mse"), 25.0 / 3, 1e-12);
  EXPECT_NEAR(metrics.values("").at("click_rmse"), std::sqrt(25.0 / 3), 1e-12);
}

TEST(TargetMetrics, OneKindOfAnswerGivesNoAuc) {
  TargetMetrics metrics({"click", /*binary=*/true});
  EXPECT_EQ(metrics.values("").at("click_auc"), 0) << "before a row is there";
  metrics.add(told(at::tensor({0.2F, 0.9F}), at::tensor({1.0F, 1.0F})));
  metrics.reduce(comm::Group());
  EXPECT_TRUE(std::isnan(metrics.values("").at("click_auc")));
  EXPECT_EQ(metrics.values("").at("click_accuracy"), 0.5);
  EXPECT_EQ(metrics.reason_of_none("click_auc"), "all rows have the same click");
}

}  // namespace
}  // namespace convoy::tasks
