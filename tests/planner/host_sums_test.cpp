#include "convoy/planner/time/host_sums.h"

#include <gtest/gtest.h>

#include "tests/planner/testing.h"

namespace convoy::planner {
namespace {

TEST(HostSums, NextSumBeginsOnSomeRanksBeforeTheLastHasEnded) {
  Cluster cluster;
  cluster.num_hosts = cluster.devices_per_host = 2;
  cluster.inside = cluster.between = {0, 100};
  const parallel::Mesh mesh({}, 0, 4);
  const GroupTimes ranks(cluster, mesh, parallel::kRows);
  // Half of it to the neighbour, then twice a quarter over the link of the host, and back.
  const auto half = ranks.time(Collective::ReduceScatter, 100);
  EXPECT_DOUBLE_EQ(half.alone, 0.5 + 2 * 0.25);
  EXPECT_DOUBLE_EQ(ranks.all_reduce(100), 2 * half.alone);
  EXPECT_LT(half.in_row, 0.8 * half.alone);
  EXPECT_GE(half.in_row, ranks.least(Collective::ReduceScatter, 100));
  EXPECT_DOUBLE_EQ(ranks.least(Collective::ReduceScatter, 100), 0.5);
  // The rank that has its part first computes meanwhile.
  EXPECT_LT(ranks.waits(100, 1, {1, 1, 1, 1}), 0.8 * ranks.all_reduce(100));
  // Where leaders carry a host's sum as a whole nothing overlaps.
  cluster.phases_overlap = false;
  const GroupTimes whole(cluster, mesh, parallel::kRows);
  EXPECT_DOUBLE_EQ(whole.time(Collective::ReduceScatter, 100).in_row, half.alone);
  EXPECT_DOUBLE_EQ(whole.waits(100, 1, {1, 1, 1, 1}), ranks.all_reduce(100));
}

TEST(HostSums, GroupsThatShareALinkTakeTurns) {
  Cluster cluster;
  cluster.num_hosts = cluster.devices_per_host = 2;
  cluster.inside = cluster.between = {0, 100};
  // Two groups of a rank on either host: one computes while the link sends the other's.
  const GroupTimes groups(cluster, parallel::Mesh({.tensor = 2}, 0, 4), parallel::kRows);
  EXPECT_DOUBLE_EQ(groups.all_reduce(100), 2);
  EXPECT_NEAR(groups.waits(100, 1, {1, 1, 1, 1}), 1, 1e-9);
}

TEST(HostSums, LateRankFindsThePartsOfTheOthersArrived) {
  Cluster cluster;
  cluster.num_hosts = cluster.devices_per_host = 2;
  cluster.inside = cluster.between = {0, 1};
  const GroupTimes ranks(cluster, parallel::Mesh({}, 0, 4), parallel::kRows);
  ASSERT_TRUE(ranks.plays_hosts());
  const auto ended = [&](const std::vector<std::vector<Begun>>& by_rank) {
    return ranks.ended(Collective::AllReduce, by_rank);
  };
  EXPECT_DOUBLE_EQ(ended({{{4, 10}}, {{4, 10}}, {{4, 10}}, {{4, 10}}}), 10 + ranks.all_reduce(4));
  // Its half for the neighbour leaves until 12; the sum of its own part, which needs nothing more,
  // crosses the link meanwhile. The neighbour's: 12 to 13, back until 14, to rank 2 until 16.
  EXPECT_DOUBLE_EQ(ranks.all_reduce(4), 8);
  EXPECT_DOUBLE_EQ(ended({{{4, 10}}, {{4, 0}}, {{4, 0}}, {{4, 0}}}), 16);
  // Others go on with the next one as far as they can. A rank has one after the other.
  const std::vector<Begun> two{{4, 0}, {4, 1}};
  EXPECT_GT(ended({two, two, two, two}), 14);
  EXPECT_EQ(ended({{}, {}, {}, {}}), 0);
}

TEST(HostSums, SlowestRankWaitsLessThanASumTakes) {
  auto cluster = paper_cluster(1, 4, 100 * kGiga, 100, 0);
  cluster.inside.seconds = 0;
  cluster.each.assign(4, cluster.device);
  const GroupTimes tensor(cluster, parallel::Mesh({.tensor = 4}, 0, 4), parallel::Axis::Tensor);
  const double alone = tensor.all_reduce(100);
  EXPECT_NEAR(tensor.waits(100, 3, {1, 1, 1, 1}), alone, 1e-9);
  // What the others send has come before it is ready.
  const double waits = tensor.waits(100, 4, {1, 1, 1, 0.5});
  EXPECT_LT(waits, 0.95 * alone);
  EXPECT_GT(waits, 0.25 * alone);
}

}  // namespace
}  // namespace convoy::planner
