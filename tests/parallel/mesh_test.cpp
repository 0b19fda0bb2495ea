#include "convoy/parallel/mesh.h"

#include <gtest/gtest.h>

#include "convoy/base/error.h"

namespace convoy::parallel {
namespace {

std::string mesh_refusal(const Degrees& degrees, int num_ranks) {
  try {
    Mesh mesh(degrees, 0, num_ranks);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "nothing was refused";
}

TEST(Mesh, NumbersRanksWithTensorFastest) {
  // As the pipeline documents draw it: two stages, two data ranks; pipelines take {0, 2}, {1, 3}.
  const Mesh mesh({.pipeline = 2, .shard = 2}, 3, 4);
  EXPECT_EQ(mesh.place(Axis::Pipeline), 1);
  EXPECT_EQ(mesh.place(Axis::Shard), 1);
  EXPECT_EQ(mesh.ranks_along(Axis::Pipeline), (std::vector<int>{1, 3}));
  EXPECT_EQ(mesh.ranks_along(Axis::Shard), (std::vector<int>{2, 3}));
  EXPECT_EQ(mesh.to_text(), "2 pipeline x 2 data");
  EXPECT_EQ(Mesh().to_text(), "1 rank");
}

TEST(Mesh, EachSetOfAxesHasThisRankAtItsPlace) {
  const Degrees degrees{.pipeline = 2, .replicate = 2, .context = 2, .tensor = 3};
  for (int rank = 0; rank < 48; ++rank) {
    const Mesh mesh(degrees, rank, 48);
    EXPECT_EQ(mesh.rank(), rank);
    EXPECT_EQ(mesh.degree(Axis::Shard), 2);
    EXPECT_EQ(mesh.ranks_along(Axis::Tensor)[0] % 3, 0);
    for (const AxisSet axes :
         {AxisSet(Axis::Pipeline), AxisSet(Axis::Replicate), AxisSet(Axis::Shard),
          AxisSet(Axis::Context), AxisSet(Axis::Tensor), kRows, kGradients, kState, kWorld}) {
      const auto ranks = mesh.ranks_along(axes);
      EXPECT_EQ(static_cast<int>(ranks.size()), mesh.degree(axes));
      EXPECT_EQ(ranks[static_cast<size_t>(mesh.place(axes))], rank);
      for (const int other : ranks) EXPECT_EQ(mesh.of(other).ranks_along(axes), ranks);
    }
    EXPECT_EQ(mesh.degree(kState) * mesh.degree(Axis::Replicate), mesh.degree(kGradients));
  }
}

TEST(Mesh, ExpertRanksHaveOtherRowsAndNeighbourContextRanks) {
  const Mesh mesh({.shard = 2, .expert = 2, .context = 2}, 5, 8);  // 101 in base two
  EXPECT_EQ(mesh.to_text(), "2 data x 2 expert x 2 context");
  EXPECT_EQ(mesh.ranks_along(Axis::Expert), (std::vector<int>{5, 7}));
  EXPECT_EQ(mesh.ranks_along(kRows), (std::vector<int>{1, 3, 5, 7}));
  EXPECT_EQ(mesh.ranks_along(kExpertState), (std::vector<int>{0, 1, 4, 5}));
  EXPECT_EQ(mesh.ranks_along(kExpertGradients), mesh.ranks_along(kExpertState));
  EXPECT_EQ(mesh.degree(kState), 8);
}

TEST(Mesh, GroupsAreToldByHowTheyLie) {
  const Mesh mesh({.pipeline = 2, .replicate = 3, .shard = 4, .tensor = 5}, 0, 120);
  EXPECT_EQ(mesh.strides_along(Axis::Context), Strides{});
  EXPECT_EQ(mesh.strides_along(Axis::Shard), (Strides{{4, 5}}));
  EXPECT_EQ(mesh.strides_along(kRows), (Strides{{12, 5}}));  // neighbouring axes are one
  EXPECT_EQ(mesh.strides_along(Axis::Pipeline | Axis::Tensor), (Strides{{5, 1}, {2, 60}}));
  EXPECT_EQ(mesh.strides_along(kWorld), (Strides{{120, 1}}));
}

TEST(Mesh, NamesAllThatComputeTheSame) {
  EXPECT_EQ(Mesh({.pipeline = 2, .shard = 2}, 0, 4).who(3), "rank 3");
  EXPECT_EQ(Mesh({.shard = 2, .tensor = 3}, 0, 6).who(4), "tensor ranks 3, 4, 5");
  EXPECT_EQ(Mesh({.shard = 2, .context = 2}, 0, 4).who(3), "context ranks 2, 3");
  EXPECT_EQ(Mesh({.pipeline = 2, .context = 2, .tensor = 2}, 0, 8).who(6),
            "context and tensor ranks 4, 5, 6, 7");
}

TEST(Mesh, SaysWhichDegreeIsWrong) {
  EXPECT_NE(mesh_refusal({.tensor = 0}, 4).find("the tensor degree is 0"), std::string::npos);
  EXPECT_NE(mesh_refusal({.pipeline = 3}, 4).find("do not divide the 4 ranks of the job; try 6"),
            std::string::npos);
  EXPECT_NE(mesh_refusal({.shard = 3, .tensor = 2}, 4).find("the shard degree is 3, but 4 ranks"),
            std::string::npos);
}

}  // namespace
}  // namespace convoy::parallel
