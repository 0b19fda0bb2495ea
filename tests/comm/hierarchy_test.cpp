#include "convoy/comm/hierarchy/hierarchy_engine.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/comm/ranks_testing.h"

namespace convoy::comm {
namespace {

void run_on_hosts(const std::vector<int>& hosts, const std::function<void(Group)>& work,
                  std::chrono::milliseconds timeout = std::chrono::seconds(20),
                  const std::vector<int>& names = {}) {
  const int port = unused_port();
  run_threads(static_cast<int>(hosts.size()), [&](int rank) {
    const auto size = static_cast<int>(hosts.size());
    const StoreAddress point{
        .rank = rank, .size = size, .port = port, .timeout = timeout, .names = names};
    const auto store = open_store(point);
    work(make_hierarchy_group(point, store, hosts));
  });
}

TEST(Hierarchy, CollectivesOverEvenAndUnevenHosts) {
  for (const auto& hosts :
       {std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 1, 1}, std::vector<int>{0, 1, 0, 1, 2}}) {
    run_on_hosts(hosts, [](Group group) {
      EXPECT_EQ(group.engine(), std::string("shm+gloo"));
      expect_collectives(group, 10000);
      expect_part_collectives(group);
      for (int root = 0; root < group.size(); ++root) {
        auto value = at::full({5}, group.rank(), at::kInt);
        group.broadcast(value, root, "value");
        EXPECT_TRUE((value == root).all().item<bool>()) << root;
      }
    });
  }
}

TEST(Hierarchy, AddsPartsInTheOrderOfItsAllReduceAndInPlace) {
  for (const auto& hosts : {std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 0, 0, 1},
                            std::vector<int>{0, 1, 1, 0}, std::vector<int>{0, 1, 0, 2}}) {
    run_on_hosts(hosts, [](Group group) {
      const Counts counts{700, 0, 1, 299};
      const int64_t own = counts[static_cast<size_t>(group.rank())];
      int64_t begin = 0;
      for (int r = 0; r < group.rank(); ++r) begin += counts[static_cast<size_t>(r)];
      const auto numbers = at::sin(at::arange(1000) * (group.rank() + 0.3));
      auto all = numbers.clone(), sums = at::zeros({own});
      group.all_reduce(all, ReduceOp::Sum, "all");
      group.reduce_scatter(sums, numbers.clone(), ReduceOp::Sum, "parts", counts);
      EXPECT_TRUE(at::equal(sums, all.narrow(0, begin, own)));
      auto whole = numbers.clone();
      auto place = whole.narrow(0, begin, own);
      group.reduce_scatter(place, whole, ReduceOp::Sum, "parts in place", counts);
      EXPECT_TRUE(at::equal(place, sums));
      group.all_gather(whole, place, "gather in place", counts);
      EXPECT_TRUE(at::equal(whole, all));
    });
  }
}

TEST(Hierarchy, CallsRanksByTheirNumberInTheWholeJob) {
  // As a connector names the world, and a group of some of its ranks.
  for (const auto& names : {std::vector<int>{0, 1, 2, 3}, std::vector<int>{1, 3, 5, 7}}) {
    run_on_hosts(
        {0, 0, 1, 1},
        [&](Group group) {
          if (group.rank() == 3) return std::this_thread::sleep_for(std::chrono::seconds(5));
          try {
            group.barrier("reduce");
            ADD_FAILURE();
          } catch (const CommunicationError& error) {
            const auto& missing = error.missing();
            if (group.rank() == 2) {
              EXPECT_EQ(missing, std::vector<int>{names[3]}) << error.what();
            }
            // Of the leaders the one of the other host may be late, and no other rank.
            if (group.rank() == 0) {
              for (const int rank : missing) EXPECT_EQ(rank, names[2]) << error.what();
            }
          }
        },
        std::chrono::seconds(1), names);
  }
}

}  // namespace
}  // namespace convoy::comm
