#include "convoy/comm/echo/echo_engine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"

namespace convoy::comm {
namespace {

TEST(EchoEngine, GivesWhatTheRankItselfGives) {
  const auto group = echo_group(1, 3);
  EXPECT_EQ(group.rank(), 1);
  EXPECT_EQ(group.size(), 3);
  const auto mine = at::arange(4, at::kFloat);
  auto sum = mine.clone();
  group.all_reduce(sum, ReduceOp::Sum, "sum");
  EXPECT_TRUE(at::equal(sum, mine));
  // Parts of any size are filled, and this rank's is its own.
  auto all = at::full({11}, -1.0F);
  group.all_gather(all, mine, "gather", {2, 4, 5});
  EXPECT_TRUE(at::equal(all, at::tensor({0, 1, 0, 1, 2, 3, 0, 1, 2, 3, 0}, at::kFloat)));
  auto in_place = at::full({6}, -1.0F);
  in_place.narrow(0, 2, 2).fill_(7);
  group.all_gather(in_place, in_place.narrow(0, 2, 2), "gather in place");
  EXPECT_TRUE(at::equal(in_place, at::full({6}, 7.0F)));
  auto part = at::zeros({4});
  group.reduce_scatter(part, at::arange(9, at::kFloat), ReduceOp::Sum, "scatter", {2, 4, 3});
  EXPECT_TRUE(at::equal(part, at::arange(2, 6, at::kFloat)));
  auto turned = at::zeros({6});
  group.all_to_all(turned, at::arange(6, at::kFloat), "all to all");
  EXPECT_TRUE(at::equal(turned, at::tensor({2, 3, 2, 3, 2, 3}, at::kFloat)));
}

TEST(EchoEngine, HasNobodyToSendTo) {
  const auto group = echo_group(0, 2);
  EXPECT_THROW(group.start_send(at::zeros({1}), 1, "send"), CommunicationError);
  EXPECT_THROW(group.start_receive(at::zeros({1}), 1, "receive"), CommunicationError);
}

}  // namespace
}  // namespace convoy::comm
