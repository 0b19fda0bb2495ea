#include "convoy/parallel/transfers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/comm/ranks_testing.h"

namespace convoy::parallel {
namespace {

using schedule::Op;

DataGroups stages(const comm::Group& group) {
  DataGroups out;
  out.pipeline = out.pipeline_back = out.world = group;
  return out;
}

// What is sent is kept until it is known to have arrived, which Gloo does not tell.
TEST(Transfers, WhatAnotherStageSendsLaterSaysWhatHasArrived) {
  constexpr int64_t kMicroBatches = 20, kAhead = 3;
  comm::run_gloo_ranks(2, [&](const comm::Group& group) {
    Transfers transfers(stages(group), at::kCPU);
    const int peer = 1 - group.rank();
    const auto message = [&](Op op, int64_t m) {
      return schedule::Instruction{.op = op, .block = 0, .micro_batch = m, .peer = peer};
    };
    const auto values = [](int64_t m) { return at::full({100'000}, static_cast<double>(m)); };
    const auto forward = [&](int64_t m) {
      if (group.rank() == 0) return transfers.send(message(Op::Send, m), {{"x", values(m)}}, {});
      EXPECT_TRUE(at::equal(transfers.receive(message(Op::Receive, m), {}).at("x"), values(m)));
    };
    const auto backward = [&](int64_t m) {
      if (group.rank() == 1) {
        return transfers.send(message(Op::SendGrad, m), {{"x", values(-m)}}, {});
      }
      const auto in = transfers.receive(message(Op::ReceiveGrad, m), {});
      EXPECT_TRUE(at::equal(in.at("x"), values(-m)));
    };
    for (int64_t m = 0; m < kMicroBatches; ++m) {
      forward(m);
      EXPECT_LE(transfers.num_under_way(), static_cast<size_t>(kAhead + 1))
          << "rank " << group.rank();
      if (m >= kAhead) backward(m - kAhead);
    }
    for (int64_t m = kMicroBatches - kAhead; m < kMicroBatches; ++m) backward(m);
    transfers.settle();
    EXPECT_EQ(transfers.num_under_way(), 0U);
  });
}

}  // namespace
}  // namespace convoy::parallel
