#include "convoy/comm/gloo/gloo_engine.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <thread>

#include "convoy/base/error.h"
#include "tests/comm/ranks_testing.h"

namespace convoy::comm {
namespace {

TEST(GlooEngine, Collectives) {
  for (int size : {2, 3}) {
    run_gloo_ranks(size, [size](Group group) {
      EXPECT_EQ(group.engine(), std::string("gloo"));
      for (int64_t count : {1, 7, 1000}) {
        expect_collectives(group, count);
      }
      expect_part_collectives(group);
      auto first = at::ones({100});
      auto second = at::ones({50});
      auto one = group.start_all_reduce(first, ReduceOp::Sum, "first");
      auto two = group.start_all_reduce(second, ReduceOp::Sum, "second");
      two.wait();
      one.wait();
      EXPECT_TRUE((first == size).all().item<bool>() && (second == size).all().item<bool>());
      auto all = group.all_gather(at::tensor({group.rank(), 5}, at::kLong), "gather");
      for (int r = 0; r < size; ++r) EXPECT_EQ(all[r][0].item<int64_t>(), r);
      EXPECT_GT(group.traffic().bytes, 0);
    });
  }
}

TEST(GlooEngine, AMissingRankEndsTheWaitWithTheLabel) {
  run_gloo_ranks(
      2,
      [](Group group) {
        if (group.rank() == 1) {
          std::this_thread::sleep_for(std::chrono::seconds(3));
          return;
        }
        auto t = at::ones({10});
        try {
          group.all_reduce(t, ReduceOp::Sum, "reduce block 7");
          ADD_FAILURE() << "nothing was thrown";
        } catch (const CommunicationError& error) {
          EXPECT_NE(std::string(error.what()).find("reduce block 7"), std::string::npos)
              << error.what();
        }
      },
      std::chrono::seconds(1));
}

}  // namespace
}  // namespace convoy::comm
