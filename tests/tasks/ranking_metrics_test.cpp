#include "convoy/tasks/session/ranking_metrics.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace convoy::tasks {
namespace {

TEST(Metrics, EqualValuesByHand) {
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
  EXPECT_EQ(values.size(), 2U * (4 + 5 + 3)) << "three have standard errors";
}

// Beside numpy: x.std(ddof=1) / sqrt(len(x)) of what each row scores.
TEST(Metrics, HaveStandardErrorsThatDoNotDependOnTheLayout) {
  const std::vector<int64_t> ranks{1, 2, 3, 11, 1000000, 2, 7};
  RankingMetrics all({2, 10}), parts({2, 10});
  all.add(at::tensor(ranks, at::kLong));
  for (const int64_t rank : ranks) parts.add(at::tensor({rank}, at::kLong));
  const auto values = all.values("eval_");
  const auto by_hand = [&](int64_t k, const auto& score) {
    double sum = 0, squares = 0;
    for (const int64_t rank : ranks) sum += rank <= k ? score(rank) : 0;
    const auto n = static_cast<double>(ranks.size());
    for (const int64_t rank : ranks) {
      const double off = (rank <= k ? score(rank) : 0) - sum / n;
      squares += off * off;
    }
    return std::sqrt(squares / (n - 1)) / std::sqrt(n);
  };
  const auto ndcg = [](int64_t rank) { return 1 / std::log2(static_cast<double>(rank) + 1); };
  const auto hit = [](int64_t) { return 1.0; };
  const auto mrr = [](int64_t rank) { return 1 / static_cast<double>(rank); };
  for (const int64_t k : {2, 10}) {
    const auto of = [&](const char* name) {
      return values.at("eval_" + std::string(name) + "_at_" + std::to_string(k) + "_stderr");
    };
    EXPECT_NEAR(of("ndcg"), by_hand(k, ndcg), 1e-15);
    EXPECT_NEAR(of("recall"), by_hand(k, hit), 1e-15);
    EXPECT_NEAR(of("mrr"), by_hand(k, mrr), 1e-15);
  }
  EXPECT_EQ(parts.values("eval_"), values);
  EXPECT_FALSE(values.contains("eval_avg_precision_at_10_stderr")) << "it is MRR's";
}

TEST(Metrics, AreZeroWithoutRows) {
  EXPECT_EQ(RankingMetrics({10}).values("x").at("xndcg_at_10"), 0);
}

TEST(Metrics, OneRowWorks) {
  RankingMetrics metrics({1});
  metrics.add(at::tensor({1}, at::kLong));
  EXPECT_EQ(metrics.values("").at("recall_at_1"), 1);
}

}  // namespace
}  // namespace convoy::tasks
