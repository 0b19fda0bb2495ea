#include "convoy/comm/mesh.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <map>

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

TEST(Mesh, EachAxisTalksToItself) {
  std::mutex mutex;
  std::map<std::string, std::vector<Group>> made;
  const auto connect = [&](int rank) {
    return [&, rank](const std::vector<int>& ranks, const std::string& name) {
      const std::lock_guard lock(mutex);
      auto& groups = made[name];
      if (groups.empty()) {
        groups = make_thread_groups(static_cast<int>(ranks.size()), std::chrono::seconds(20));
      }
      const auto place = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
      return groups[static_cast<size_t>(place)];
    };
  };
  run_threads(8, [&](int rank) {
    const Mesh mesh({.pipeline = 2, .data = 2, .tensor = 2}, rank, 8, connect(rank));
    for (const Axis axis : kAxes) {
      auto sum = at::full({1}, rank, at::kLong);
      mesh.group(axis).all_reduce(sum, ReduceOp::Sum, "sum");
      int64_t expected = 0;
      for (const int other : mesh.ranks_along(axis)) expected += other;
      EXPECT_EQ(sum.item<int64_t>(), expected);
    }
  });
}

}  // namespace
}  // namespace convoy::comm
