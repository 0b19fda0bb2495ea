#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "convoy/base/error.h"
#include "convoy/comm/nccl/nccl_engine.h"
#include "tests/comm/ranks_testing.h"
#include "tests/gpu/gpu_testing.h"

namespace convoy::comm {
namespace {

using Engines = Gpu;

/// A group of one has no engine, and NCCL takes no two ranks on one GPU: what one GPU can show.
TEST_F(Engines, NcclOpensAndMovesEveryType) {
  std::string why;
  if (!has_nccl(&why)) GTEST_SKIP() << why;
  StoreAddress point;
  point.port = unused_port();
  const auto engine = make_nccl_engine(point, open_store(point), gpu_);
  const std::string label = "test";
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kLong}) {
    const auto options = at::TensorOptions().dtype(dtype).device(gpu_);
    auto in = at::arange(1000, options), out = at::zeros({1000}, options);
    const auto expected = in.cpu();
    engine->all_reduce(in, ReduceOp::Sum, {label})->wait();
    EXPECT_TRUE(at::equal(in.cpu(), expected));
    engine->all_gather(out, in, {1000}, {label})->wait();
    EXPECT_TRUE(at::equal(out.cpu(), expected));
    out.zero_();
    engine->reduce_scatter(out, in, {1000}, ReduceOp::Max, {label})->wait();
    EXPECT_TRUE(at::equal(out.cpu(), expected));
    out.zero_();
    engine->all_to_all(out, {1000}, in, {1000}, {label})->wait();
    EXPECT_TRUE(at::equal(out.cpu(), expected));
    engine->broadcast(out, 0, {label})->wait();
    EXPECT_TRUE(at::equal(out.cpu(), expected));
  }
  auto host = at::ones({3});
  engine->all_reduce(host, ReduceOp::Sum, {label})->wait();  // by way of the GPU
  EXPECT_TRUE(at::equal(host, at::ones({3})));
}

TEST_F(Engines, GlooTakesTensorsOfAGpu) {
  run_gloo_ranks(2, [&](Group group) {
    std::vector<at::Tensor> buckets;
    std::vector<Group::Handle> handles;
    for (int64_t i = 0; i < 5; ++i) {
      buckets.push_back(at::full({100000 + i}, group.rank() + 1.0, at::device(gpu_)));
      handles.push_back(group.start_all_reduce(buckets.back(), ReduceOp::Sum, "bucket"));
    }
    auto word = at::ones({1});
    group.all_reduce(word, ReduceOp::Sum, "word");
    for (size_t i = 0; i < handles.size(); ++i) {
      handles[i].wait();
      EXPECT_TRUE((buckets[i] == 3).all().item<bool>());
    }
    EXPECT_EQ(word.item<float>(), 2);
  });
}

TEST_F(Engines, ThreadsSendEachOtherWhatTheyComputeInTheOrderSent) {
  run_thread_ranks(2, [&](Group group) {
    // On a stream of its own, so that messages alone order what the threads do.
    const c10::impl::VirtualGuardImpl device(gpu_.type());
    const c10::StreamGuard own(device.getStreamFromGlobalPool(gpu_, /*isHighPriority=*/false));
    const int other = 1 - group.rank();
    std::vector<Group::Handle> sent;
    for (int64_t i = 0; i < 20; ++i) {
      const auto value = at::full({50000 + i}, 100.0 * group.rank(), at::device(gpu_)).add_(i);
      sent.push_back(group.start_send(value, other, "output"));
    }
    for (int64_t i = 0; i < 20; ++i) {
      auto received = at::empty({50000 + i}, at::device(gpu_));
      group.start_receive(received, other, "output").wait();
      EXPECT_TRUE((received == 100.0 * other + static_cast<double>(i)).all().item<bool>()) << i;
    }
    for (auto& each : sent) {
      each.wait();
      EXPECT_TRUE(each.done());
    }
    auto mine = at::full({7}, group.rank(), at::device(gpu_)), theirs = at::empty_like(mine);
    group.start_send_receive(mine, other, theirs, other, "both").wait();
    EXPECT_TRUE((theirs == other).all().item<bool>());
  });
}

TEST_F(Engines, AThreadThatExpectsAnotherMessageSaysWhich) {
  const std::string told = "rank 0 sends 'output' of 3 elements, rank 1 receives 'gradient' of 3";
  run_thread_ranks(
      2,
      [&](Group group) {
        auto value = at::ones({3}, at::device(gpu_));
        try {
          if (group.rank() == 0) group.start_send(value, 1, "output").wait();
          if (group.rank() == 1) group.start_receive(value, 0, "gradient").wait();
          ADD_FAILURE() << group.rank();
        } catch (const CommunicationError& error) {
          EXPECT_NE(std::string(error.what()).find(told), std::string::npos) << error.what();
        }
        try {
          group.start_receive(value, 1 - group.rank(), "nothing").wait();
          ADD_FAILURE() << group.rank();
        } catch (const CommunicationError& error) {
          EXPECT_NE(std::string(error.what()).find("'nothing' was stopped"), std::string::npos);
        }
      },
      std::chrono::seconds(5));
}

}  // namespace
}  // namespace convoy::comm
