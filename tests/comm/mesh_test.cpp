#include "convoy/comm/mesh.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "convoy/base/error.h"
#include "tests/comm/ranks_testing.h"

namespace convoy::comm {
namespace {

Group none(const std::vector<int>&, const std::string&) {
  return {};
}

std::string refusal(const MeshDegrees& degrees, int num_ranks) {
  try {
    Mesh mesh(degrees, 0, num_ranks, none);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Mesh, NumbersRanksWithTensorFastest) {
  // As the pipeline documents draw it: two stages, two replicas; pipelines take {0, 2} and {1, 3}.
  const Mesh mesh({.pipeline = 2, .data = 2}, 3, 4, none);
  EXPECT_EQ(mesh.coordinate(Axis::Pipeline), 1);
  EXPECT_EQ(mesh.coordinate(Axis::Data), 1);
  EXPECT_EQ(mesh.ranks_along(Axis::Pipeline), (std::vector<int>{1, 3}));
  EXPECT_EQ(mesh.ranks_along(Axis::Data), (std::vector<int>{2, 3}));
  EXPECT_EQ(mesh.to_text(), "2 pipeline x 2 data");
  for (int rank = 0; rank < 24; ++rank) {
    const Mesh large({.pipeline = 2, .data = 0, .context = 2, .tensor = 3}, rank, 24, none);
    EXPECT_EQ(large.degree(Axis::Data), 2);
    EXPECT_EQ(large.rank_at(large.coordinates_of(rank)), rank);
    EXPECT_EQ(large.ranks_along(Axis::Tensor)[0] % 3, 0);
    for (const Axis axis : kAxes) {
      EXPECT_EQ(large.ranks_along(axis)[static_cast<size_t>(large.coordinate(axis))], rank);
    }
  }
}

TEST(Mesh, SaysWhichDegreeIsWrong) {
  EXPECT_NE(refusal({.tensor = 0}, 4).find("the tensor degree is 0"), std::string::npos);
  EXPECT_NE(refusal({.pipeline = 3}, 4).find("do not divide the 4 ranks of the job; try 6"),
            std::string::npos);
  EXPECT_NE(refusal({.data = 3, .tensor = 2}, 4).find("the data degree is 3, but 4 ranks"),
            std::string::npos);
}

TEST(Mesh, EachGroupTalksToItself) {
  ThreadConnector connector(std::chrono::seconds(20));
  run_threads(16, [&](int rank) {
    const auto connect = [&](const std::vector<int>& ranks, const std::string& name) {
      return connector.connect(rank, ranks, name);
    };
    const Mesh mesh({.pipeline = 2, .data = 2, .context = 2, .tensor = 2}, rank, 16, connect);
    const auto expect_sum = [](const Group& group, const std::vector<int>& ranks) {
      ASSERT_EQ(group.size(), static_cast<int>(ranks.size()));
      auto sum = at::full({1}, ranks[static_cast<size_t>(group.rank())], at::kLong);
      group.all_reduce(sum, ReduceOp::Sum, "sum");
      EXPECT_EQ(sum.item<int64_t>(), std::accumulate(ranks.begin(), ranks.end(), 0));
    };
    for (const Axis axis : kAxes) expect_sum(mesh.group(axis), mesh.ranks_along(axis));
    expect_sum(mesh.world(), mesh.ranks_along({kAxes.begin(), kAxes.end()}));
    const auto sharing = mesh.ranks_along({Axis::Data, Axis::Context});
    EXPECT_EQ(sharing.size(), 4U);
    EXPECT_EQ(mesh.world().size(), 16);
    expect_sum(mesh.sharing(), sharing);
  });
}

TEST(Mesh, GroupsOfTheSameRanksAreOne) {
  std::vector<std::string> names;
  const auto connect = [&](const std::vector<int>& ranks, const std::string& name) {
    names.push_back(name);
    return Group(0, static_cast<int>(ranks.size()), nullptr);
  };
  const Mesh data({}, 0, 4, connect);
  EXPECT_EQ(names, std::vector<std::string>{"world-0"});
  EXPECT_EQ(data.sharing().size(), 4);
  names.clear();
  const Mesh two({.pipeline = 2}, 0, 4, connect);
  EXPECT_EQ(names, (std::vector<std::string>{"world-0", "pipeline-0", "data-0"}));
  EXPECT_EQ(two.sharing().size(), 2);
}

}  // namespace
}  // namespace convoy::comm
