#include "convoy/comm/gloo/gloo_engine.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "convoy/base/error.h"

namespace convoy::comm {
namespace {

/// Ranks as threads over Gloo; rank 0 chooses the port.
void run_ranks(int size, int port, const std::function<void(Group)>& work,
               std::chrono::seconds timeout = std::chrono::seconds(20)) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      MeetingPoint point;
      point.rank = rank;
      point.size = size;
      point.port = port;
      point.timeout = timeout;
      work(make_gloo_group(point, open_store(point)));
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(GlooEngine, Collectives) {
  for (int size : {2, 3}) {
    run_ranks(size, 21300 + getpid() % 5000 + size, [size](Group group) {
      EXPECT_EQ(group.engine(), std::string("gloo"));
      for (int64_t count : {1, 7, 1000}) {
        auto t = at::full({count}, group.rank() + 1, at::kFloat);
        group.all_reduce(t, ReduceOp::Sum, "sum");
        EXPECT_TRUE((t == size * (size + 1) / 2).all().item<bool>());
        auto m = at::full({count}, group.rank() + 1, at::kLong);
        group.all_reduce(m, ReduceOp::Max, "max");
        EXPECT_TRUE((m == size).all().item<bool>());
        auto b = at::full({count}, group.rank(), at::kFloat);
        group.broadcast(b, size - 1, "broadcast");
        EXPECT_TRUE((b == size - 1).all().item<bool>());
      }
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
  run_ranks(
      2, 26500 + getpid() % 5000,
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
