#include <gmock/gmock.h>

#include <cmath>

#include "convoy/planner/search/decision.h"
#include "convoy/planner/search/splits.h"
#include "tests/planner/testing.h"

// Splits with expert ranks: experts on one rank each, rows on their way to them.
namespace convoy::planner {
namespace {

using parallel::Axis;
using testing::HasSubstr;

constexpr int64_t kExperts = 8;

/// A model whose layers also have experts, of which a token is sent to two.
ModelCosts numbers_with_experts(const PaperModel& model) {
  auto out = model.numbers();
  for (auto& block : out.model.blocks) {
    if (block.params.size() != 2) continue;  // the table, the head
    block.experts_per_token = 2;
    for (int64_t e = 0; e < kExperts; ++e) {
      block.params.push_back(static_cast<int64_t>(out.model.params.size()));
      out.model.params.push_back({block.name + ".expert." + std::to_string(e),
                                  {4 * model.width, model.width},
                                  {.dim = 0, .experts = {e, 1, kExperts}}});
    }
  }
  return out;
}

SearchSpace space_of(const Cluster& cluster, int64_t batch) {
  SearchSpace out{.num_ranks = cluster.num_devices(), .global_batch = batch};
  out.num_experts = kExperts;
  if (cluster.num_hosts > 1) out.ranks_per_host = cluster.devices_per_host;
  return out;
}

int64_t experts_of(const Parallelism& split) {
  return split.mesh().degree(Axis::Expert);
}

TEST(ExpertSplits, StayInsideAHost) {
  const auto two = paper_cluster(2, 4, 1000 * kGiga, 100 * kGiga, kGiga);
  std::set<int64_t> seen;
  for (const auto& split : splits_of(space_of(two, 8))) {
    const auto mesh = split.mesh();
    EXPECT_EQ(split.num_ranks(), 8);
    EXPECT_EQ(split.global_batch(), 8);
    seen.insert(experts_of(split));
    if (experts_of(split) == 1) continue;
    EXPECT_EQ(mesh.degree(Axis::Tensor), 1) << split.to_text();
    for (const int rank : mesh.of(7).ranks_along(Axis::Expert)) EXPECT_GE(rank, 4);
  }
  EXPECT_EQ(seen, (std::set<int64_t>{1, 2, 4}));
  auto dense = space_of(two, 8);
  dense.num_experts = 0;
  for (const auto& split : splits_of(dense)) EXPECT_EQ(experts_of(split), 1);
}

TEST(ExpertSplits, HaveFewerWeightsAndSendRows) {
  const PaperModel model;
  const auto numbers = numbers_with_experts(model);
  const auto cluster = paper_cluster(1, 4, 1000 * kGiga, 100 * kGiga, 0);
  const Parallelism data{.ranks = {.shard = 4}, .rows = 4};
  auto dealt = data;
  dealt.set_expert_ranks(4);
  const auto whole = predict(numbers, cluster, {}, data),
             parts = predict(numbers, cluster, {}, dealt);
  const auto of_experts = 4 * kExperts * model.layers * 4 * model.width * model.width;  // bytes
  EXPECT_NEAR(static_cast<double>(whole.memory.parameters - parts.memory.parameters),
              0.75 * static_cast<double>(of_experts), 1e5);
  // Two all-to-alls of two rows a token, forward and backward, of which a quarter stays.
  const double bytes = 2.0 * 4 * 4 * static_cast<double>(model.length * model.width);
  const double one = cluster.inside.seconds + 0.75 * bytes / cluster.inside.bytes_per_second;
  const auto layers = static_cast<double>(model.layers);
  EXPECT_NEAR(parts.computing - whole.computing, layers * (4 * one + 2 * cluster.inside.seconds),
              1e-6);
}

TEST(ExpertSplits, AreToldWithTheReason) {
  PaperModel model;
  const auto told = [&](const Cluster& cluster) {
    const auto numbers = numbers_with_experts(model);
    const auto space = space_of(cluster, 64);
    std::string out;
    for (const auto& line : decision(numbers, cluster, space, search(numbers, cluster, space))) {
      out += line + "\n";
    }
    return out;
  };
  const auto inside = told(paper_cluster(1, 4, 1000 * kGiga, 100 * kGiga, 0));
  EXPECT_THAT(inside, HasSubstr("Over 4 expert ranks, each with 2 of a layer's 8 experts, rows are "
                                "on their way for"));
  EXPECT_THAT(inside, HasSubstr("Without expert ranks the best split (4 data"));
  const auto hosts = told(paper_cluster(2, 4, 1000 * kGiga, 100 * kGiga, kGiga));
  EXPECT_THAT(hosts, HasSubstr("Between hosts, over 8 expert ranks, each with 1 of a layer's 8"));
  EXPECT_THAT(hosts, HasSubstr("so they are tried inside a host only."));
  // Gradients of wide experts take longer than short rows.
  model.width = 1024;
  model.length = 32;
  const auto wide = told(paper_cluster(1, 4, 1000 * kGiga, 5 * kGiga, 0));
  EXPECT_THAT(wide, HasSubstr("With expert ranks the best split ("));
}

TEST(ExpertSplits, AreFoundAsByBruteForce) {
  std::mt19937 random(7);
  const auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(random));
  };
  int with = 0, without = 0;
  for (int n = 0; n < 20; ++n) {
    PaperModel model;
    model.layers = 2 + static_cast<int64_t>(random() % 3);
    model.width = 128 << random() % 2;
    model.length = 128 << random() % 4;
    auto cluster = paper_cluster(1 + static_cast<int>(random() % 2), 4, draw(0.05, 2) * kGiga,
                                 draw(1, 1000) * kGiga, draw(0.1, 100) * kGiga);
    cluster.beside = random() % 2;
    auto space = space_of(cluster, cluster.num_devices() << random() % 3);
    const auto numbers = numbers_with_experts(model);
    const auto bounded = search(numbers, cluster, space);
    space.all = true;
    const auto all = search(numbers, cluster, space);
    ASSERT_EQ(bounded.best() == nullptr, all.best() == nullptr) << n;
    if (all.best() == nullptr) continue;
    const auto& split = all.best()->split;
    EXPECT_EQ(bounded.best()->split, split) << n << ": " << bounded.best()->split.to_text();
    ++(experts_of(split) > 1 ? with : without);
  }
  EXPECT_GT(with, 2);
  EXPECT_GT(without, 0);
}

}  // namespace
}  // namespace convoy::planner
