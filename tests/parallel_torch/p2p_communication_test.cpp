#include "convoy/parallel/pipeline/torch/p2p_communication.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/comm/ranks_testing.h"

namespace convoy::parallel {
namespace {

using parallel::Op;

comm::Groups stages(const comm::Group& group) {
  comm::Groups out;
  out.pipeline = out.pipeline_back = out.world = group;
  return out;
}

// What is sent is kept until it is known to have arrived, which Gloo does not tell.
TEST(P2PCommunication, LaterMessagesAcknowledgeEarlierSends) {
  constexpr int64_t kMicroBatches = 20, kAhead = 3;
  comm::run_gloo_ranks(2, [&](const comm::Group& group) {
    P2PCommunication p2p(stages(group), at::kCPU);
    const int peer = 1 - group.rank();
    const auto message = [&](Op op, int64_t m) {
      return parallel::Instruction{.op = op, .block = 0, .micro_batch = m, .peer = peer};
    };
    const auto values = [](int64_t m) { return at::full({100'000}, static_cast<double>(m)); };
    const auto forward = [&](int64_t m) {
      if (group.rank() == 0) return p2p.send(message(Op::Send, m), {{"x", values(m)}}, {});
      EXPECT_TRUE(at::equal(p2p.receive(message(Op::Receive, m), {})->at("x"), values(m)));
    };
    const auto backward = [&](int64_t m) {
      if (group.rank() == 1) {
        return p2p.send(message(Op::SendGrad, m), {{"x", values(-m)}}, {});
      }
      const auto in = p2p.receive(message(Op::ReceiveGrad, m), {}).value();
      EXPECT_TRUE(at::equal(in.at("x"), values(-m)));
    };
    for (int64_t m = 0; m < kMicroBatches; ++m) {
      forward(m);
      EXPECT_LE(p2p.num_under_way(), static_cast<size_t>(kAhead + 1)) << "rank " << group.rank();
      if (m >= kAhead) backward(m - kAhead);
    }
    for (int64_t m = kMicroBatches - kAhead; m < kMicroBatches; ++m) backward(m);
    p2p.settle();
    EXPECT_EQ(p2p.num_under_way(), 0U);
  });
}

// Gloo sends what its receiver has asked for: the next bundle is asked for while this rank
// computes.
TEST(P2PCommunication, ExpectedBundlesArriveWhileTheReceiverComputes) {
  // Larger than what sockets hold, and bundles that have less, more and none of the last one's
  // room.
  const std::vector<int64_t> sizes{8 << 20, 8 << 20, 8 << 20, 1000,   9 << 20,
                                   0,       0,       8 << 20, 8 << 20};
  comm::run_gloo_ranks(2, [&](const comm::Group& group) {
    P2PCommunication p2p(stages(group), at::kCPU);
    std::vector<parallel::Instruction> messages;
    for (size_t m = 0; m < sizes.size(); ++m) {
      messages.push_back({.op = group.rank() == 0 ? Op::Send : Op::Receive,
                          .block = 0,
                          .micro_batch = static_cast<int64_t>(m),
                          .peer = 1 - group.rank()});
    }
    if (group.rank() == 1) p2p.expect(messages);
    const auto meet = [&] { group.all_reduce(at::zeros({1}), comm::ReduceOp::Sum, "meet"); };
    for (size_t m = 0; m < sizes.size(); ++m) {
      const nn::Bundle values{{"x", at::full({sizes[m]}, static_cast<float>(m))}};
      const auto bundle = sizes[m] > 0 ? values : nn::Bundle();
      if (group.rank() == 0) {
        p2p.send(messages[m], bundle, {});
        if (m == 1) p2p.settle();  // while the other rank waits here
        if (m == 1) meet();
        continue;
      }
      const auto got = p2p.receive(messages[m], {}).value();
      ASSERT_EQ(got.size(), bundle.size());
      if (!got.empty()) EXPECT_TRUE(at::equal(got.at("x"), values.at("x"))) << "bundle " << m;
      if (m == 0) meet();
    }
    p2p.settle();
  });
}

// Over NCCL heads go beside the values, which may leave before any head is looked at.
TEST(P2PCommunication, BothSidesMaySendMuchBeforeEitherReceives) {
  const auto timeout = std::chrono::seconds(10);
  const auto forth = comm::make_thread_groups(2, timeout),
             back = comm::make_thread_groups(2, timeout),
             heads = comm::make_thread_groups(2, timeout);
  comm::run_threads(2, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    auto groups = stages(forth[r]);
    groups.pipeline_back = back[r];
    groups.pipeline_heads = heads[r];
    P2PCommunication p2p(groups, at::kCPU);
    const auto message = [&](bool sends, int64_t m) {
      const bool forward = (rank == 0) == sends;
      const auto op =
          sends ? (forward ? Op::Send : Op::SendGrad) : (forward ? Op::Receive : Op::ReceiveGrad);
      return parallel::Instruction{.op = op, .block = 0, .micro_batch = m, .peer = 1 - rank};
    };
    // Each is of a shape of its own.
    for (int64_t m = 0; m < 9; ++m) {
      p2p.send(message(true, m), {{"x", at::full({m + 1}, rank)}}, {});
    }
    for (int64_t m = 0; m < 9; ++m) {
      const auto x = p2p.receive(message(false, m), {})->at("x");
      EXPECT_TRUE(at::equal(x, at::full({m + 1}, 1 - rank)));
    }
    p2p.settle();
  });
}

// In the place of a bundle, and the next one is as ever.
TEST(P2PCommunication, AStageMayTellThatItHasGivenUp) {
  comm::run_thread_ranks(2, [&](const comm::Group& group) {
    P2PCommunication p2p(stages(group), at::kCPU);
    const auto message = [&](Op op, int64_t m) {
      return parallel::Instruction{
          .op = op, .block = 0, .micro_batch = m, .peer = 1 - group.rank()};
    };
    const nn::Bundle values{{"x", at::ones({3})}};
    if (group.rank() == 0) {
      p2p.send(message(Op::Send, 0), values, {});
      p2p.tell_given_up(message(Op::Send, 1));
      p2p.send(message(Op::Send, 2), {}, {});
      p2p.send(message(Op::Send, 3), values, {});
    } else {
      EXPECT_TRUE(p2p.receive(message(Op::Receive, 0), {}).has_value());
      EXPECT_FALSE(p2p.receive(message(Op::Receive, 1), {}).has_value());
      EXPECT_TRUE(p2p.receive(message(Op::Receive, 2), {}).value().empty());
      EXPECT_TRUE(at::equal(p2p.receive(message(Op::Receive, 3), {})->at("x"), at::ones({3})));
    }
    p2p.settle();
  });
}

// Both sides remember names, types and shapes; of more than they remember, they begin anew.
TEST(P2PCommunication, ADescriptionTravelsOnce) {
  comm::run_thread_ranks(2, [&](const comm::Group& group) {
    P2PCommunication p2p(stages(group), at::kCPU);
    const int peer = 1 - group.rank();
    int64_t number = 0;
    /// Bytes that it took, beside the values.
    const auto carry = [&](const nn::Bundle& bundle) {
      const parallel::Instruction message{.op = group.rank() == 0 ? Op::Send : Op::Receive,
                                          .block = 0,
                                          .micro_batch = number++,
                                          .peer = peer};
      if (group.rank() == 1) {
        const auto found = p2p.receive(message, {}).value();
        EXPECT_EQ(found.size(), bundle.size());
        for (const auto& [name, tensor] : bundle) {
          EXPECT_TRUE(at::equal(found.at(name), tensor)) << name;
          EXPECT_EQ(found.at(name).sizes(), tensor.sizes());
        }
        return int64_t{0};
      }
      const auto before = group.traffic().bytes;
      p2p.send(message, bundle, {});
      int64_t bytes = group.traffic().bytes - before;
      for (const auto& [name, tensor] : bundle) bytes -= static_cast<int64_t>(tensor.nbytes());
      return bytes;
    };
    const auto square = at::arange(16).view({4, 4}), row = at::arange(16, at::kFloat);
    const nn::Bundle first{{"x", square}}, second{{"x", row}}, none,
        wordy{{"x", row}, {std::string(3000, 'n'), square}};
    const int64_t told = carry(first);
    for (const auto* bundle : {&second, &none, &wordy}) carry(*bundle);
    for (const auto* bundle : {&first, &second, &none, &wordy, &first}) {
      const auto again = carry(*bundle);
      EXPECT_LE(again, 32) << "a few numbers";
      EXPECT_LE(again, told);
    }
    for (int64_t length = 0; length < 5000; ++length) carry({{"x", at::ones({length})}});
    carry(first);
    p2p.settle();
  });
}

}  // namespace
}  // namespace convoy::parallel
