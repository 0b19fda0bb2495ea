#include "convoy/comm/broadcast_together.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/comm/ranks_testing.h"

namespace convoy::comm {
namespace {

TEST(BroadcastTogether, TakesOneCollectiveForEachType) {
  run_thread_ranks(3, [](const Group& group) {
    const int rank = group.rank();
    std::vector<at::Tensor> tensors{at::full({3, 4}, rank, at::kFloat),
                                    at::full({}, 10 + rank, at::kLong),
                                    at::full({4, 3}, 20 + rank, at::kFloat).t(),  // not contiguous
                                    at::empty({0}), at::full({2}, 30 + rank, at::kLong)};
    const auto before = Group::traffic_of({group}).collectives;
    broadcast_together(group, tensors, 1, "broadcast buffers");
    EXPECT_EQ(Group::traffic_of({group}).collectives - before, 2);
    EXPECT_TRUE(tensors[0].equal(at::full({3, 4}, 1, at::kFloat)));
    EXPECT_EQ(tensors[1].item<int64_t>(), 11);
    EXPECT_TRUE(tensors[2].equal(at::full({3, 4}, 21, at::kFloat)));
    EXPECT_TRUE(tensors[4].equal(at::full({2}, 31, at::kLong)));
  });
}

}  // namespace
}  // namespace convoy::comm
