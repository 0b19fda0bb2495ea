#include "convoy/planner/time/uneven.h"

#include <gtest/gtest.h>

#include "convoy/planner/search/search.h"
#include "tests/planner/testing.h"

namespace convoy::planner {
namespace {

/// A host whose devices are so fast, and have so much memory.
Cluster uneven_cluster(const std::vector<double>& speeds, double memory, double inside) {
  auto out = paper_cluster(1, static_cast<int>(speeds.size()), memory, inside, 0);
  for (const double speed : speeds) {
    auto& device = out.each.emplace_back(out.device);
    device.fp32_flops *= speed;
  }
  return out;
}

TEST(Uneven, ASlowRankIsWaitedFor) {
  const PaperModel model;
  const auto numbers = model.numbers();
  const auto alike = paper_cluster(1, 4, 100 * kGiga, 100 * kGiga, 0);
  const auto slow = uneven_cluster({1, 1, 0.5, 1}, 100 * kGiga, 100 * kGiga);
  for (const Parallelism& split :
       {Parallelism{.ranks = {.shard = 4}}, Parallelism{.ranks = {.shard = 2, .tensor = 2}}}) {
    const auto even = predict(numbers, alike, {}, split), one = predict(numbers, slow, {}, split);
    // But for the sums of tensor ranks, which take as long.
    const double slower = one.computing / even.computing;
    EXPECT_GT(slower, split.ranks.tensor > 1 ? 1.9 : 1.99) << split.to_text();
    EXPECT_LT(slower, split.ranks.tensor > 1 ? 1.99 : 2.01) << split.to_text();
    EXPECT_GT(one.seconds, 1.3 * even.seconds) << split.to_text();
  }
  const Parallelism stages{.ranks = {.pipeline = 4}, .micro_batches = 16};
  EXPECT_GT(predict(numbers, slow, {}, stages).seconds,
            1.2 * predict(numbers, alike, {}, stages).seconds);
}

TEST(Uneven, OtherRanksSumsHaveComeBeforeTheSlowOnesOverHosts) {
  const auto numbers = PaperModel().numbers();
  constexpr double kSlow = 0.2 * kGiga;
  auto cluster = paper_cluster(2, 3, 100 * kGiga, kSlow, kSlow);
  cluster.each.assign(6, cluster.device);
  const Parallelism split{.ranks = {.shard = 6}};
  const double even = predict(numbers, cluster, {}, split).seconds;
  cluster.each[0].fp32_flops *= 0.5;
  const auto slow = predict(numbers, cluster, {}, split);
  // It computes longer by what an even rank computes, yet the step takes less longer.
  EXPECT_LT(slow.seconds - even, 0.99 * (slow.computing / 2));
  EXPECT_GT(slow.seconds, even);
  EXPECT_NEAR(predict(numbers, cluster, {}, split, true).seconds, slow.seconds, 1e-9);
}

TEST(Uneven, StagesAreCutForTheirDevices) {
  PaperModel model;
  model.layers = 12;
  model.vocabulary = 100;
  const auto numbers = model.numbers();
  const auto cluster = uneven_cluster({1, 0.5}, 100 * kGiga, 100 * kGiga);
  Parallelism split{.ranks = {.pipeline = 2}, .rows = 1, .micro_batches = 16};
  const auto cut = cut_for_speeds(numbers, cluster, {}, split);
  EXPECT_EQ(cut, std::vector<int64_t>{9}) << "a table and eight of twelve layers";
  const double by_cost = predict(numbers, cluster, {}, split).seconds;
  split.pipeline.splits = cut;
  EXPECT_LT(1.3 * predict(numbers, cluster, {}, split).seconds, by_cost);
  EXPECT_NE(to_toml(split).find("pipeline_splits = 9"), std::string::npos) << to_toml(split);
  const auto alike = uneven_cluster({1, 1}, 100 * kGiga, 100 * kGiga);
  EXPECT_TRUE(cut_for_speeds(numbers, alike, {}, split).empty());
}

TEST(Uneven, NoStageHasMoreThanItsDevicesHold) {
  PaperModel model;
  model.layers = 12;
  model.vocabulary = 100;
  const auto numbers = model.numbers();
  const double layer = 16 * 12.0 * static_cast<double>(model.width * model.width);
  auto cluster = uneven_cluster({1, 1}, 100 * kGiga, 100 * kGiga);
  cluster.each[1].memory_bytes = static_cast<int64_t>(3.5 * layer);
  const Parallelism split{.ranks = {.pipeline = 2}, .micro_batches = 4};
  EXPECT_EQ(cut_for_speeds(numbers, cluster, {}, split), std::vector<int64_t>{10});
  cluster.each[0].memory_bytes = static_cast<int64_t>(3.5 * layer);
  EXPECT_TRUE(cut_for_speeds(numbers, cluster, {}, split).empty());
  EXPECT_EQ(predict(numbers, cluster, {}, split).fit, Fit::No);
}

TEST(Uneven, SearchFindsWhatTryingAllSplitsFinds) {
  std::mt19937 random(5);
  const auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(random));
  };
  int cut = 0;
  for (int n = 0; n < 40; ++n) {
    PaperModel model;
    model.layers = 2 + static_cast<int64_t>(random() % 6);
    model.width = 128 << random() % 3;
    std::vector<double> speeds(size_t{1} << (1 + random() % 2));
    for (auto& speed : speeds) speed = draw(0.3, 2);
    auto cluster = uneven_cluster(speeds, 0, draw(0.05, 50) * kGiga);
    for (auto& device : cluster.each) {
      device.memory_bytes = static_cast<int64_t>(draw(0.05, 2) * kGiga);
    }
    cluster.device = cluster.each.front();
    SearchSpace space{.num_ranks = cluster.num_devices(), .global_batch = 16};
    const auto bounded = search(model.numbers(), cluster, space);
    space.all = true;
    const auto all = search(model.numbers(), cluster, space);
    ASSERT_EQ(bounded.best() == nullptr, all.best() == nullptr) << n;
    if (all.best() == nullptr) continue;
    EXPECT_EQ(bounded.best()->split, all.best()->split)
        << bounded.best()->split.to_text() << " and " << all.best()->split.to_text();
    cut += all.best()->split.pipeline.splits.empty() ? 0 : 1;
  }
  EXPECT_GT(cut, 3);
}

// Of ranks that are alike one stands for all.
TEST(Symmetry, OneRankOfEachStageStandsForAll) {
  PaperModel model;
  model.layers = 6;
  model.heads = 3;  // tensor ranks have uneven shares
  model.width = 96;
  const auto numbers = model.numbers();
  auto cluster = paper_cluster(8, 8, 100 * kGiga, 10 * kGiga, kGiga);
  cluster.host_bytes_per_second = kGiga;
  std::vector<Parallelism> splits{{.ranks = {.shard = 64}, .zero = 3},
                                  {.ranks = {.shard = 32, .tensor = 2}, .zero = 1}};
  for (const auto schedule : {&parallel::kOneFOneB, &parallel::kZeroBubble}) {
    splits.push_back(
        {.ranks = {.pipeline = 4, .shard = 8, .tensor = 2}, .micro_batches = 8, .zero = 1});
    splits.back().pipeline.schedule = schedule;
  }
  splits.push_back({.ranks = {.replicate = 64 / 8, .shard = 8}, .micro_batches = 2, .zero = 3});
  splits.back().offload.optimizer = parallel::Place::Cpu;
  for (const auto& split : splits) {
    ASSERT_EQ(split.num_ranks(), 64);
    const auto one = predict(numbers, cluster, {}, split);
    const auto all = predict(numbers, cluster, {}, split, /*in_full=*/true);
    EXPECT_NEAR(all.seconds, one.seconds, 1e-9 * one.seconds) << split.to_text();
    EXPECT_EQ(all.memory.sum(), one.memory.sum());
  }
}

// Of many micro-batches the first and the last are played.
TEST(Symmetry, SomeOfManyMicroBatchesStandForAll) {
  PaperModel model;
  model.layers = 7;
  const auto numbers = model.numbers();
  for (const double link : {100 * kGiga, kGiga, 0.05 * kGiga}) {
    auto cluster = paper_cluster(1, 4, 100 * kGiga, link, 0);
    for (const double beside : {0.0, 1.0}) {
      cluster.beside = beside;
      for (const int64_t micro_batches : {37, 64}) {
        std::vector<Parallelism> splits{{},
                                        {.ranks = {.shard = 4}},
                                        {.ranks = {.tensor = 4}},
                                        {.ranks = {.pipeline = 4}},
                                        {.ranks = {.pipeline = 4}}};
        for (const int64_t zero : {1, 2, 3})
          splits.push_back({.ranks = {.shard = 4}, .zero = zero});
        splits.push_back({.ranks = {.pipeline = 2, .shard = 2}, .zero = 1});
        splits[4].pipeline.schedule = &parallel::kZeroBubble;
        splits.back().pipeline.schedule = &parallel::kInterleaved;
        for (auto& split : splits) {
          split.micro_batches = micro_batches;
          split.bucket_bytes = 4 << 20;
          const auto some = predict(numbers, cluster, {}, split);
          const auto all = predict(numbers, cluster, {}, split, /*in_full=*/true);
          EXPECT_NEAR(some.seconds / all.seconds, 1, 1e-3) << split.to_text();
          EXPECT_EQ(some.memory.sum(), all.memory.sum()) << split.to_text();
        }
      }
    }
  }
}

}  // namespace
}  // namespace convoy::planner
