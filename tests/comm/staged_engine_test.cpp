#include "convoy/comm/staged_engine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/comm/ranks_testing.h"

namespace convoy::comm {
namespace {

/// Two ranks over Gloo whose calls go through the threads that wait for copies.
void run_behind(const std::function<void(Group)>& work,
                std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  const int port = unused_port();
  run_threads(2, [&](int rank) {
    const StoreAddress point{.rank = rank, .size = 2, .port = port, .timeout = timeout};
    work(Group(rank, 2,
               make_staged_engine(make_gloo_engine(point, open_store(point)), at::kCPU, true)));
  });
}

TEST(StagedEngine, CollectivesBehindTheCaller) {
  run_behind([](const Group& group) {
    expect_collectives(group, 1000);
    expect_part_collectives(group);
  });
}

TEST(StagedEngine, KeepsTheOrderOfCalls) {
  run_behind([](const Group& group) {
    std::vector<at::Tensor> buckets;
    std::vector<Group::Handle> handles;
    for (int64_t i = 0; i < 20; ++i) {
      buckets.push_back(at::full({1000 + i}, group.rank() + i));
      handles.push_back(group.start_all_reduce(buckets.back(), ReduceOp::Sum, "bucket"));
      auto word = at::ones({1});
      group.all_reduce(word, ReduceOp::Sum, "word");
      EXPECT_EQ(word.item<float>(), 2);
    }
    for (size_t i = handles.size(); i-- > 0;) {
      handles[i].wait();
      EXPECT_TRUE((buckets[i] == static_cast<int64_t>(2 * i + 1)).all().item<bool>());
    }
  });
}

TEST(StagedEngine, ALateRankIsAnErrorOfTheWait) {
  run_behind(
      [](const Group& group) {
        group.barrier("start");  // whoever leaves before it breaks the other's joining
        if (group.rank() == 1) return;
        auto tensor = at::ones({4});
        auto handle = group.start_all_reduce(tensor, ReduceOp::Sum, "bucket 7");
        try {
          handle.wait();
          ADD_FAILURE() << "no error";
        } catch (const CommunicationError& error) {
          EXPECT_NE(std::string(error.what()).find("'bucket 7'"), std::string::npos)
              << error.what();
        }
      },
      std::chrono::seconds(1));
}

}  // namespace
}  // namespace convoy::comm
