#include "convoy/comm/shm/shm_engine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/comm/ranks_testing.h"

namespace convoy::comm {
namespace {

TEST(ShmEngine, Collectives) {
  run_thread_ranks(3, [](Group group) {
    expect_collectives(group, 100000);
    expect_part_collectives(group);
  });
}

TEST(ShmEngine, ManyCollectivesMayBeInFlight) {
  run_thread_ranks(2, [](Group group) {
    std::vector<at::Tensor> tensors;
    std::vector<Group::Handle> handles;
    for (int i = 0; i < 50; ++i) {
      tensors.push_back(at::full({20000}, i + group.rank(), at::kDouble));
      handles.push_back(group.start_all_reduce(tensors.back(), ReduceOp::Average, "bucket"));
    }
    for (int i = 49; i >= 0; --i) {
      handles[static_cast<size_t>(i)].wait();
      EXPECT_TRUE((tensors[static_cast<size_t>(i)] == i + 0.5).all().item<bool>());
    }
  });
}

TEST(ShmEngine, GivesTheBitsOfTorchAdditionInEveryType) {
  for (auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kInt, at::kLong,
                    at::kChar, at::kByte}) {
    run_thread_ranks(2, [type](Group group) {
      at::Tensor mine[2];
      for (int r = 0; r < 2; ++r) {
        mine[r] = at::arange(1, 5001, at::kDouble).mul(r == 0 ? 0.37 : 0.011).sin().mul(50).abs();
        mine[r] = mine[r].to(type);
      }
      auto sum = mine[group.rank()].clone();
      group.all_reduce(sum, ReduceOp::Sum, "sum");
      EXPECT_TRUE(at::equal(sum, mine[0] + mine[1])) << c10::toString(type);
    });
  }
}

TEST(Group, RefusesWhatCannotBe) {
  run_thread_ranks(2, [](Group group) {
    auto t = at::ones({4, 4});
    EXPECT_THROW(group.all_reduce(t.t(), ReduceOp::Sum, "sum"), UsageError);
    auto n = at::ones({4}, at::kLong);
    EXPECT_THROW(group.all_reduce(n, ReduceOp::Average, "sum"), UsageError);
    EXPECT_THROW(group.start_all_gather(at::ones({5}), at::ones({2}), "gather"), UsageError);
    EXPECT_THROW(group.start_reduce_scatter(at::ones({1}), at::ones({4}), ReduceOp::Sum, "part"),
                 UsageError);
  });
}

}  // namespace
}  // namespace convoy::comm
