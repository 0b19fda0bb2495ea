#include "convoy/nn/losses/top_products.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "convoy/nn/losses/ranking.h"

namespace convoy::nn {
namespace {

/// Best columns by best_columns() over all scores, of which some are left out.
TopColumns by_sorting(at::Tensor scores, int64_t k, const std::vector<int64_t>& left_out) {
  scores = scores.clone();
  for (const int64_t column : left_out) scores[column] = -INFINITY;
  const auto [values, columns] = best_columns(scores.unsqueeze(0), k);
  TopColumns out;
  for (int64_t i = 0; i < values.size(1); ++i) {
    const auto score = values[0][i].item<float>();
    if (score == -INFINITY) break;
    out.scores.push_back(score);
    out.columns.push_back(columns[0][i].item<int64_t>());
  }
  return out;
}

std::vector<int64_t> every(int64_t step, int64_t end) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < end; i += step) out.push_back(i);
  return out;
}

TEST(TopProducts, AreThoseOfSortingAllScores) {
  at::manual_seed(3);
  for (const int64_t K : {8, 64}) {
    for (const int64_t N : {1, 5, 40, 130}) {
      const int64_t C = 5000;
      // Whole numbers: many scores are equal, and sums are exact in any order.
      const auto x = at::randint(-2, 3, {N, K}).to(at::kFloat);
      const auto table = at::randint(-2, 3, {C, K}).to(at::kFloat);
      const auto scores = at::mm(x, table.t());
      std::vector<TopQuery> queries;
      for (int64_t row = 0; row < N; ++row) {
        TopQuery query{.k = row % 7 == 6 ? C : 1 + 11 * (row % 3)};
        if (row % 4 == 1) query.left_out = every(1 + row, C);
        if (row % 4 == 2) query.among = every(17, C);  // few: gathered
        if (row % 4 == 3) query.among = every(2, C);
        queries.push_back(query);
      }
      const auto unseen = every(5, C);
      const auto found = top_products(x, table, 2.0, queries, unseen);
      for (int64_t row = 0; row < N; ++row) {
        const auto& query = queries[static_cast<size_t>(row)];
        auto left_out = query.left_out;
        left_out.insert(left_out.end(), unseen.begin(), unseen.end());
        if (query.among) {
          left_out.clear();
          for (int64_t column = 0; column < C; ++column) {
            if (!std::ranges::binary_search(*query.among, column)) left_out.push_back(column);
          }
        }
        const auto expected = by_sorting(scores[row] / 2.0, query.k, left_out);
        const auto& own = found[static_cast<size_t>(row)];
        ASSERT_EQ(own.columns, expected.columns) << "row " << row << " of " << N;
        ASSERT_EQ(own.scores, expected.scores);
      }
    }
  }
}

TEST(TopProducts, HaveTheSameBitsWhateverElseIsAsked) {
  if (!__builtin_cpu_supports("x86-64-v4")) GTEST_SKIP() << "of AVX-512 alone";
  at::manual_seed(4);
  const int64_t C = 9001;
  const auto x = at::randn({12, 64}), table = at::randn({C, 64});
  const std::vector<TopQuery> all(12, TopQuery{.k = C});
  const auto together = top_products(x, table, 1.0, all);
  for (int64_t row = 0; row < 12; ++row) {
    std::vector<float> scores(static_cast<size_t>(C));
    const auto& own = together[static_cast<size_t>(row)];
    for (size_t i = 0; i < own.columns.size(); ++i) {
      scores[static_cast<size_t>(own.columns[i])] = own.scores[i];
    }
    for (const auto& among : {every(100, C), every(2, C), std::vector<int64_t>{C - 1}}) {
      const auto alone =
          top_products(x.narrow(0, row, 1), table, 1.0, {{.k = C, .among = among}}).front();
      ASSERT_EQ(alone.columns.size(), among.size());
      for (size_t i = 0; i < among.size(); ++i) {
        EXPECT_EQ(alone.scores[i], scores[static_cast<size_t>(alone.columns[i])]);
      }
    }
  }
}

TEST(TopProducts, PutScoresThatAreNoNumbersFirst) {
  auto table = at::ones({3000, 16});
  table[2500].fill_(std::numeric_limits<float>::quiet_NaN());
  const auto found = top_products(at::ones({1, 16}), table, 1.0, {{.k = 2}}).front();
  EXPECT_EQ(found.columns, (std::vector<int64_t>{2500, 0}));
  EXPECT_TRUE(std::isnan(found.scores[0]));
  const auto without =
      top_products(at::ones({1, 16}), table, 1.0, {{.k = 2, .left_out = {2500}}}).front();
  EXPECT_EQ(without.columns, (std::vector<int64_t>{0, 1}));
  EXPECT_TRUE(top_products(at::ones({1, 16}), table, 1.0, {{.k = 0}}).front().columns.empty());
}

}  // namespace
}  // namespace convoy::nn
