#include "convoy/tasks/session/ranking_metrics.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace convoy::tasks {
namespace {

TEST(Metrics, ByHand) {
  RankingMetrics metrics({2, 10});
  metrics.add(at::tensor({1, 2, 3, 11}, at::kLong));
  metrics.add(at::tensor({1000000}, at::kLong));
  auto values = metrics.values("eval_");
  EXPECT_DOUBLE_EQ(values.at("eval_recall_at_2"), 2.0 / 5);
  EXPECT_DOUBLE_EQ(values.at("eval_recall_at_10"), 3.0 / 5);
  EXPECT_DOUBLE_EQ(values.at("eval_mrr_at_10"), (1 + 0.5 + 1.0 / 3) / 5);
  EXPECT_DOUBLE_EQ(values.at("eval_avg_precision_at_10"), (1 + 0.5 + 1.0 / 3) / 5);
  EXPECT_DOUBLE_EQ(values.at("eval_avg_precision_at_2"), (1 + 0.5) / 5);
  EXPECT_DOUBLE_EQ(values.at("eval_ndcg_at_10"), (1 + 1 / std::log2(3.0) + 0.5) / 5);
  EXPECT_EQ(metrics.count(), 5);
}

TEST(Metrics, HaveTransformers4RecsNames) {
  RankingMetrics metrics({2, 10}, /*transformers4rec_names=*/true);
  metrics.add(at::tensor({1, 3, 11}, at::kLong));
  const auto values = metrics.values("eval_");
  EXPECT_DOUBLE_EQ(values.at("eval_/next-item/precision_at_2"), 1.0 / 3 / 2);
  EXPECT_DOUBLE_EQ(values.at("eval_/next-item/precision_at_10"), 2.0 / 3 / 10);
  EXPECT_DOUBLE_EQ(values.at("eval_/next-item/dcg_at_10"), 1.5 / 3);
  for (const char* name : {"ndcg_at_10", "recall_at_2", "avg_precision_at_10"}) {
    EXPECT_EQ(values.at(std::string("eval_/next-item/") + name),
              values.at(std::string("eval_") + name));
  }
  EXPECT_EQ(values.size(), 2U * (4 + 5));
}

TEST(Metrics, NothingGivesZero) {
  EXPECT_EQ(RankingMetrics({10}).values("x").at("xndcg_at_10"), 0);
}

TEST(Metrics, OneRowWorks) {
  RankingMetrics metrics({1});
  metrics.add(at::tensor({1}, at::kLong));
  EXPECT_EQ(metrics.values("").at("recall_at_1"), 1);
}

}  // namespace
}  // namespace convoy::tasks
