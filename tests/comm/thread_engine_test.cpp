#include "convoy/comm/thread/thread_engine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <thread>

#include "convoy/base/error.h"
#include "tests/comm/ranks_testing.h"

namespace convoy::comm {
namespace {

TEST(ThreadEngine, Collectives) {
  for (int size : {2, 3, 4}) {
    run_thread_ranks(size, [size](Group group) {
      for (int64_t count : {0, 1, 7, 1000}) {
        expect_collectives(group, count);
      }
      auto all = group.all_gather(at::tensor({group.rank(), 5}, at::kLong), "gather");
      EXPECT_EQ(all.sizes(), (std::vector<int64_t>{size, 2}));
      for (int r = 0; r < size; ++r) EXPECT_EQ(all[r][0].item<int64_t>(), r);
      group.barrier("end");
    });
  }
}

TEST(ThreadEngine, SumsInRankOrderWhateverTheTiming) {
  // In another order these floats give another sum.
  const std::vector<float> values{1e8f, 1.0f, -1e8f, 1.0f};
  for (int round = 0; round < 20; ++round) {
    run_thread_ranks(4, [&](Group group) {
      std::this_thread::sleep_for(std::chrono::microseconds(97 * ((group.rank() + round) % 4)));
      auto t = at::full({3}, values[static_cast<size_t>(group.rank())]);
      group.all_reduce(t, ReduceOp::Sum, "sum");
      EXPECT_EQ(t[0].item<float>(), ((1e8f + 1.0f) + -1e8f) + 1.0f);
    });
  }
}

TEST(ThreadEngine, AMissingRankIsNamed) {
  run_thread_ranks(
      2,
      [](Group group) {
        if (group.rank() == 1) return;
        try {
          group.barrier("save checkpoint");
          ADD_FAILURE();
        } catch (const CommunicationError& error) {
          EXPECT_NE(std::string(error.what()).find("'save checkpoint' for rank 1"),
                    std::string::npos)
              << error.what();
        }
      },
      std::chrono::milliseconds(100));
}

TEST(ThreadEngine, AbortWakesEveryone) {
  run_thread_ranks(3, [](Group group) {
    if (group.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      group.abort("replica 2 failed");
      return;
    }
    try {
      group.barrier("reduce");
      ADD_FAILURE();
    } catch (const CommunicationError& error) {
      EXPECT_NE(std::string(error.what()).find("replica 2 failed"), std::string::npos);
    }
  });
}

TEST(ThreadEngine, DifferentSizesAreRefused) {
  run_thread_ranks(2, [](Group group) {
    auto t = at::zeros({group.rank() + 3});
    EXPECT_THROW(group.all_reduce(t, ReduceOp::Sum, "grads"), CommunicationError);
  });
}

TEST(Group, OneRankNeedsNoEngine) {
  Group group;
  auto t = at::ones({3});
  group.all_reduce(t, ReduceOp::Sum, "sum");
  EXPECT_TRUE((t == 1).all().item<bool>());
  EXPECT_EQ(group.all_gather(t, "gather").sizes(), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(group.traffic().collectives, 0);
}

}  // namespace
}  // namespace convoy::comm
