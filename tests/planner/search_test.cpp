#include "convoy/planner/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "convoy/base/error.h"
#include "convoy/planner/time/bounds.h"
#include "tests/planner/testing.h"

namespace convoy::planner {
namespace {

SearchResult found_for(const PaperModel& model, const Cluster& cluster, int64_t global_batch,
                       bool all = false, std::vector<parallel::Place> offload = {}) {
  SearchSpace space{.num_ranks = cluster.num_devices(), .global_batch = global_batch};
  space.all = all;
  space.offload = std::move(offload);
  space.base.offload.folder = "disk";
  if (cluster.num_hosts > 1) space.ranks_per_host = cluster.devices_per_host;
  return search(model.numbers(), cluster, space);
}

TEST(Search, FindsWhatTryingAllSplitsFinds) {
  std::mt19937 random(3);
  const auto draw = [&](double low, double high) {
    return std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(random));
  };
  int none = 0;
  size_t with_bounds = 0, without = 0;
  for (int n = 0; n < 200; ++n) {
    PaperModel model;
    model.layers = 2 + static_cast<int64_t>(random() % 5);
    model.width = 128 << random() % 3;
    model.heads = random() % 2 == 0 ? 8 : 3;  // shares of heads are uneven
    if (model.heads == 3) model.width = 96 << random() % 3;
    const bool offloads = n % 5 == 0;  // on fewer ranks, since all of them are tried
    const auto hosts = 1 << random() % 2, devices = 1 << random() % (offloads ? 2 : 3);
    auto cluster = paper_cluster(hosts, devices, draw(0.02, 2) * kGiga, draw(0.1, 100) * kGiga,
                                 draw(0.01, 10) * kGiga);
    cluster.beside = random() % 2;
    cluster.host_bytes_per_second = draw(0.1, 50) * kGiga;
    cluster.disk_bytes_per_second = draw(0.1, 10) * kGiga;
    cluster.host_memory_bytes = static_cast<int64_t>(draw(0.05, 5) * kGiga);
    std::vector<parallel::Place> offload;
    if (offloads) offload.push_back(parallel::Place::Cpu);
    if (n % 20 == 0) offload.push_back(parallel::Place::Disk);
    const auto bounded = found_for(model, cluster, 16, false, offload),
               all = found_for(model, cluster, 16, true, offload);
    ASSERT_EQ(bounded.best() == nullptr, all.best() == nullptr) << n;
    if (all.best() == nullptr) {
      ++none;
      continue;
    }
    EXPECT_EQ(bounded.best()->split, all.best()->split)
        << n << ": " << bounded.best()->split.to_text() << " and " << all.best()->split.to_text();
    EXPECT_LE(bounded.tried.size(), all.tried.size());
    with_bounds += bounded.tried.size();
    without += all.tried.size();
  }
  EXPECT_LT(5 * with_bounds, 4 * without) << "many are left out by their bounds";
  EXPECT_GT(none, 10);
  EXPECT_LT(none, 130);
}

TEST(Search, BoundsAreNeverAboveWhatASplitTakes) {
  PaperModel model;
  auto cluster = paper_cluster(2, 4, 100 * kGiga, 10 * kGiga, kGiga);
  const auto numbers = model.numbers();
  cluster.host_bytes_per_second = kGiga;
  SearchSpace space{.num_ranks = 8, .global_batch = 32, .ranks_per_host = 4};
  space.all = space.takes_sequence = true;
  space.most_context = 4;
  space.offload = {parallel::Place::Cpu, parallel::Place::Disk};
  space.base.offload.folder = "disk";
  const auto all = search(numbers, cluster, space);
  for (const auto& [split, prediction, simplicity] : all.tried) {
    EXPECT_LE(least_seconds(numbers, cluster, {}, split), prediction.seconds * (1 + 1e-9))
        << split.to_text();
    EXPECT_LE(least_bytes(numbers, cluster, {}, split), prediction.memory.sum()) << split.to_text();
  }
}

// Between hosts only what a host owns is summed: stage 3 within hosts gathers over fast links.
TEST(Decision, ReplicasOfTheStateStayInHostsWithSlowLinks) {
  PaperModel model;
  const auto numbers = model.numbers();
  auto cluster = paper_cluster(2, 4, 100 * kGiga, 100 * kGiga, kGiga);
  cluster.beside = 0;  // nothing hides what is sent
  const Parallelism all{.ranks = {.shard = 8}, .rows = 8, .micro_batches = 1, .zero = 3};
  auto hybrid = all;
  hybrid.set_shard_ranks(4);
  EXPECT_NE(hybrid.to_text().find("shard_ranks 4"), std::string::npos);
  const auto in_hosts = predict(numbers, cluster, {}, hybrid);
  const auto over_all = predict(numbers, cluster, {}, all);
  EXPECT_LT(in_hosts.seconds, over_all.seconds);
  EXPECT_GT(in_hosts.memory.sum(), over_all.memory.sum());
  const SearchSpace space{.num_ranks = 8, .global_batch = 64, .ranks_per_host = 4};
  const auto splits = splits_of(space);
  EXPECT_NE(std::find(splits.begin(), splits.end(), hybrid), splits.end());
}

TEST(Decision, RecomputesTheFewestBlocksThatFit) {
  PaperModel model;
  model.layers = 12;
  const auto numbers = model.numbers();
  auto cluster = paper_cluster(1, 1, 100 * kGiga, 100 * kGiga, 0);
  const Parallelism whole{.rows = 8, .micro_batches = 1};
  auto again = whole;
  again.recompute = true;
  const auto most = predict(numbers, cluster, {}, whole).memory.sum();
  const auto least = predict(numbers, cluster, {}, again).memory.sum();
  ASSERT_LT(least, most);
  cluster.device.memory_bytes = (most + least) / 2;
  // All: smaller micro-batches, which are as fast here, leave no split that could win by it.
  SearchSpace space{.num_ranks = 1, .global_batch = 8, .all = true};
  const auto found = search(numbers, cluster, space);
  ASSERT_NE(found.best(), nullptr);
  for (const auto& planned : found.tried) {
    if (planned.split.blocks_recomputed() == 0 || planned.prediction.fit == Fit::No) continue;
    auto fewer = planned.split;
    fewer.set_blocks_recomputed(fewer.blocks_recomputed() - 1);
    EXPECT_EQ(predict(numbers, cluster, {}, fewer).fit, Fit::No) << planned.split.to_text();
    auto all = planned.split;
    all.set_blocks_recomputed(0);
    all.recompute = true;
    EXPECT_LT(planned.prediction.seconds, predict(numbers, cluster, {}, all).seconds);
    return;
  }
  FAIL() << "no split recomputes some of the blocks";
}

TEST(Search, ReducesGradientsOnceAStepWhereThatIsFaster) {
  PaperModel model;
  const auto numbers = model.numbers();
  auto cluster = paper_cluster(1, 4, 100 * kGiga, kGiga, 0);
  const auto found = search(numbers, cluster, {.num_ranks = 4, .global_batch = 64, .all = true});
  const auto each_of = [](Parallelism split) {
    split.reduce_each = true;
    return split;
  };
  int64_t once = 0, faster = 0;
  for (const auto& [split, prediction, simplicity] : found.tried) {
    if (split.reduce_each) continue;
    ++once;
    EXPECT_GE(split.zero, 2);
    EXPECT_GT(split.micro_batches, 1);
    EXPECT_NE(split.to_text().find(", zero_reduce last"), std::string::npos);
    EXPECT_NE(to_toml(split).find("zero_reduce = \"last\""), std::string::npos);
    EXPECT_EQ(to_toml(each_of(split)).find("zero_reduce"), std::string::npos);
    const auto each = predict(numbers, cluster, {}, each_of(split));
    faster += prediction.seconds < each.seconds ? 1 : 0;
    EXPECT_GT(prediction.memory.sum(), each.memory.sum()) << split.to_text();
  }
  EXPECT_GT(once, 0);
  EXPECT_GT(faster, 0);
}

TEST(Decision, GathersFurtherAheadWhereThatHidesMore) {
  PaperModel model;
  const auto numbers = model.numbers();
  auto cluster = paper_cluster(1, 4, 100 * kGiga, kGiga, 0);
  const Parallelism split{.ranks = {.shard = 4}, .rows = 4, .zero = 3, .bucket_bytes = 1 << 20};
  auto further = split;
  further.gathers.prefetch = 4;
  EXPECT_LE(predict(numbers, cluster, {}, further).seconds,
            predict(numbers, cluster, {}, split).seconds);
  EXPECT_GT(predict(numbers, cluster, {}, further).memory.gathered,
            predict(numbers, cluster, {}, split).memory.gathered);
}

// Memory to spare buys half of the gathers.
TEST(Search, GathersOnceForForwardAndBackwardWhereItFits) {
  PaperModel model;
  const auto cluster = paper_cluster(1, 4, 100 * kGiga, kGiga, 0);
  const auto found = found_for(model, cluster, 64, true);
  int64_t once = 0, faster = 0;
  for (const auto& [split, prediction, simplicity] : found.tried) {
    if (split.gathers.reshard_after_forward) continue;
    ++once;
    auto twice = split;
    twice.gathers.reshard_after_forward = true;
    const auto again = predict(model.numbers(), cluster, {}, twice);
    faster += prediction.seconds < again.seconds ? 1 : 0;
    EXPECT_LE(prediction.seconds, again.seconds * (1 + 1e-9)) << split.to_text();
    EXPECT_GE(prediction.memory.sum(), again.memory.sum()) << split.to_text();
  }
  EXPECT_GT(once, 0);
  EXPECT_GT(faster, 0);
}

TEST(Search, FrontGivesUpTimeForMemory) {
  PaperModel model;
  const auto found = found_for(model, paper_cluster(1, 8, 100 * kGiga, 10 * kGiga, 0), 64, true);
  const auto front = found.front();
  ASSERT_GT(front.size(), 1U);
  for (size_t n = 1; n < front.size(); ++n) {
    EXPECT_GE(front[n]->prediction.seconds, front[n - 1]->prediction.seconds);
    EXPECT_LT(front[n]->prediction.memory.sum(), front[n - 1]->prediction.memory.sum());
  }
}

TEST(Search, SaysOverHowManyRanksABatchDoesNotDivide) {
  EXPECT_THROW(splits_of({.num_ranks = 3, .global_batch = 0}), UsageError);
  using Reasons = std::vector<std::string>;
  EXPECT_EQ(left_out({.num_ranks = 12, .global_batch = 8}),
            Reasons{"a step of 8 rows does not divide over 3, 6, 12 data ranks"});
  EXPECT_EQ(left_out({.num_ranks = 4, .global_batch = 8}), Reasons{});
  const PaperModel model;
  const auto found = found_for(model, paper_cluster(1, 3, 100 * kGiga, 10 * kGiga, 0), 7);
  ASSERT_NE(found.best(), nullptr);
  EXPECT_EQ(found.best()->split.ranks.data(), 1);
  EXPECT_EQ(found.refused, Reasons{"a step of 7 rows does not divide over 3 data ranks"});
}

TEST(Search, TriesNoMoreStagesAndTensorRanksThanTheModelHas) {
  const SearchSpace space{.num_ranks = 16,
                          .global_batch = 16,
                          .most_stages = 5,
                          .most_tensor = 2,
                          .beyond_tensor = "three heads"};
  int64_t stages = 0, of_several = 0, tensor = 0;
  for (const auto& split : splits_of(space)) {
    stages = std::max(stages, split.ranks.pipeline);
    tensor = std::max(tensor, split.ranks.tensor);
    const bool several = split.pipeline.schedule->interleaved;
    if (split.ranks.pipeline > 1 && several)
      of_several = std::max(of_several, split.ranks.pipeline);
  }
  EXPECT_EQ(stages, 4);
  EXPECT_EQ(of_several, 2);  // with two virtual stages each
  EXPECT_EQ(tensor, 2);
  EXPECT_EQ(left_out(space),
            (std::vector<std::string>{"a pipeline of more than 5 stages: each has a block at least",
                                      "three heads"}));
}

TEST(Search, PrefersTheSimplerOfEquallyFastSplits) {
  // Nothing is to be sent or updated: ddp and every stage of ZeRO take the same.
  PaperModel model;
  auto numbers = model.numbers();
  numbers.update_seconds = numbers.accumulate_seconds = 0;
  const auto cluster = paper_cluster(1, 2, 100 * kGiga, 1e30, 0);
  const auto found = search(numbers, cluster, {.num_ranks = 2, .global_batch = 8, .all = true});
  ASSERT_NE(found.best(), nullptr);
  EXPECT_EQ(found.best()->split.family(), "ddp") << found.best()->split.to_text();
}

}  // namespace
}  // namespace convoy::planner
