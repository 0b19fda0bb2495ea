#include "convoy/comm/groups.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/comm/ranks_testing.h"

namespace convoy::comm {
namespace {

using schedule::Axis;
using schedule::Mesh;

TEST(Groups, EachAddsUpTheRanksThatTheMeshNames) {
  ThreadConnector connector(std::chrono::seconds(20));
  run_threads(32, [&](int rank) {
    const Mesh mesh({.pipeline = 2, .replicate = 2, .context = 2, .tensor = 2}, rank, 32);
    const Groups groups(mesh, [&](const std::vector<int>& ranks, const std::string& name) {
      return connector.connect(rank, ranks, name);
    });
    const auto expect_sum = [&](const Group& group, schedule::AxisSet axes) {
      const auto ranks = mesh.ranks_along(axes);
      ASSERT_EQ(group.size(), static_cast<int>(ranks.size()));
      EXPECT_EQ(group.rank(), mesh.place(axes));
      auto sum = at::full({1}, rank, at::kLong);
      group.all_reduce(sum, ReduceOp::Sum, "sum");
      EXPECT_EQ(sum.item<int64_t>(), std::accumulate(ranks.begin(), ranks.end(), 0));
    };
    expect_sum(groups.world, schedule::kWorld);
    expect_sum(groups.rows, schedule::kRows);
    expect_sum(groups.gradients, schedule::kGradients);
    expect_sum(groups.shard, schedule::kState);
    expect_sum(groups.replicas, Axis::Replicate);
    expect_sum(groups.context, Axis::Context);
    expect_sum(groups.tensor, Axis::Tensor);
    expect_sum(groups.pipeline, Axis::Pipeline);
    EXPECT_EQ(groups.pipeline_heads.size(), 1);
  });
}

TEST(Groups, OfTheSameRanksAreOne) {
  std::vector<std::string> names;
  const auto connect = [&](const std::vector<int>& ranks, const std::string& name) {
    names.push_back(name);
    return Group(0, static_cast<int>(ranks.size()), nullptr);
  };
  const Groups data({{}, 0, 4}, connect);
  EXPECT_EQ(names, std::vector<std::string>{"world-0"});
  EXPECT_EQ(data.gradients.size(), 4);
  EXPECT_EQ(data.shard.size(), 4);
  EXPECT_EQ(data.replicas.size(), 1);
  names.clear();
  const Groups two({{.pipeline = 2}, 0, 4}, connect);
  EXPECT_EQ(names, (std::vector<std::string>{"world-0", "pipeline-0", "gradients-0"}));
  EXPECT_EQ(two.gradients.size(), 2);
  names.clear();
  const Groups replicas({{.replicate = 2}, 0, 4}, connect);
  EXPECT_EQ(names, (std::vector<std::string>{"world-0", "shard-0", "replicas-0"}));
}

}  // namespace
}  // namespace convoy::comm
