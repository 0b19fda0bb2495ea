#include "convoy/job/hosts_of_ranks.h"

#include <gtest/gtest.h>

namespace convoy::train {
namespace {

using ModelCosts = std::vector<int>;

TEST(HostsOfRanks, FollowTheMachinesHoweverRanksAreNumbered) {
  EXPECT_EQ(job::hosts_of_ranks({7, 7, 9, 9}, {0, 1, 0, 1}), (ModelCosts{0, 0, 1, 1}));
  EXPECT_EQ(job::hosts_of_ranks({9, 7, 9, 7}, {0, 0, 1, 1}), (ModelCosts{0, 1, 0, 1}))
      << "srun -m cyclic";
  EXPECT_EQ(job::hosts_of_ranks({7, 9, 7}, {0, 0, 1}), (ModelCosts{0, 1, 0}));
}

TEST(HostsOfRanks, TellLaunchersOfOneMachineApart) {
  EXPECT_EQ(job::hosts_of_ranks({7, 7, 7, 7}, {0, 1, 0, 1}), (ModelCosts{0, 0, 1, 1}));
  EXPECT_EQ(job::hosts_of_ranks({7, 7, 7, 7}, {0, 0, 1, 1}), (ModelCosts{0, 1, 0, 1}));
}

}  // namespace
}  // namespace convoy::train
