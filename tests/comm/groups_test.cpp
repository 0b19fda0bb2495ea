#include "convoy/comm/groups.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/comm/ranks_testing.h"

namespace convoy::comm {
namespace {

using parallel::Axis;
using parallel::Mesh;

TEST(Groups, EachAddsUpTheRanksThatTheMeshNames) {
  ThreadConnector connector(std::chrono::seconds(20));
  run_threads(64, [&](int rank) {
    const Mesh mesh({.pipeline = 2, .replicate = 2, .expert = 2, .context = 2, .tensor = 2}, rank,
                    64);
    const Groups groups(mesh, [&](const std::vector<int>& ranks, const std::string& name) {
      return connector.connect(rank, ranks, name);
    });
    const auto expect_sum = [&](const Group& group, parallel::AxisSet axes) {
      const auto ranks = mesh.ranks_along(axes);
      ASSERT_EQ(group.size(), static_cast<int>(ranks.size()));
      EXPECT_EQ(group.rank(), mesh.place(axes));
      auto sum = at::full({1}, rank, at::kLong);
      group.all_reduce(sum, ReduceOp::Sum, "sum");
      EXPECT_EQ(sum.item<int64_t>(), std::accumulate(ranks.begin(), ranks.end(), 0));
    };
    expect_sum(groups.world, parallel::kWorld);
    expect_sum(groups.rows, parallel::kRows);
    expect_sum(groups.gradients, parallel::kGradients);
    expect_sum(groups.shard, parallel::kState);
    expect_sum(groups.replicas, Axis::Replicate);
    expect_sum(groups.experts, Axis::Expert);
    expect_sum(groups.expert_gradients, parallel::kExpertGradients);
    expect_sum(groups.expert_shard, parallel::kExpertState);
    expect_sum(groups.context, Axis::Context);
    expect_sum(groups.tensor, Axis::Tensor);
    expect_sum(groups.pipeline, Axis::Pipeline);
    EXPECT_EQ(groups.pipeline_heads.size(), 1);
  });
}

TEST(Groups, AxesOfTheSameRanksShareAGroup) {
  std::vector<std::string> names;
  const auto connect = [&](const std::vector<int>& ranks, const std::string& name) {
    names.push_back(name);
    return Group(0, static_cast<int>(ranks.size()), nullptr);
  };
  const Groups data({{}, 0, 4}, connect);
  EXPECT_EQ(names, std::vector<std::string>{"world-0"});
  EXPECT_EQ(data.gradients.size(), 4);
  EXPECT_EQ(data.shard.size(), 4);
  EXPECT_EQ(data.replicas.size(), 1);
  names.clear();
  const Groups two({{.pipeline = 2}, 0, 4}, connect);
  EXPECT_EQ(names, (std::vector<std::string>{"world-0", "pipeline-0", "gradients-0"}));
  EXPECT_EQ(two.gradients.size(), 2);
  names.clear();
  const Groups replicas({{.replicate = 2}, 0, 4}, connect);
  EXPECT_EQ(names, (std::vector<std::string>{"world-0", "shard-0", "replicas-0"}));
}

/// Stands in for NCCL; notes which ranks connect.
class Connecting : public Engine {
 public:
  Connecting(std::vector<std::string>& said, int rank) : said_(said), rank_(rank) {}
  const char* name() const override { return "nccl"; }
  void connect_pairs(const Pairs& pairs, at::Tensor, const Call& call) override {
    said_.push_back(call.label);
    for (const auto& [first, second] : pairs) {
      if (rank_ == first || rank_ == second) said_.push_back(fmt::format("{}-{}", first, second));
    }
  }
  std::shared_ptr<Work> all_reduce(at::Tensor, ReduceOp, const Call&) override { return {}; }
  std::shared_ptr<Work> reduce_scatter(at::Tensor, at::Tensor, const Counts&, ReduceOp,
                                       const Call&) override {
    return {};
  }
  std::shared_ptr<Work> all_gather(at::Tensor, at::Tensor, const Counts&, const Call&) override {
    return {};
  }
  std::shared_ptr<Work> broadcast(at::Tensor, int, const Call&) override { return {}; }
  std::shared_ptr<Work> all_to_all(at::Tensor, const Counts&, at::Tensor, const Counts&,
                                   const Call&) override {
    return {};
  }
  std::shared_ptr<Work> send(at::Tensor, int, const Call&) override { return {}; }
  std::shared_ptr<Work> receive(at::Tensor, int, const Call&) override { return {}; }
  void abort(const std::string&) override {}

 private:
  std::vector<std::string>& said_;
  int rank_;
};

TEST(Groups, StagesOverNcclConnectTwoByTwoAtTheStart) {
  using Said = std::vector<std::string>;
  const auto connections = [](int stages, int rank) {
    Said said;
    const auto connect = [&](const std::vector<int>& ranks, const std::string&) {
      return Group(rank, static_cast<int>(ranks.size()), std::make_shared<Connecting>(said, rank));
    };
    const Groups groups({{.pipeline = stages}, rank, stages}, connect, connect);
    EXPECT_EQ(groups.pipeline_back.size(), stages);
    return said;
  };
  EXPECT_EQ(connections(2, 1),
            (Said{"connect stages", "0-1", "connect stages for gradients", "0-1"}));
  EXPECT_EQ(connections(4, 0),
            (Said{"connect stages", "0-1", "0-3", "connect stages for gradients", "0-1", "0-3"}));
  EXPECT_EQ(connections(4, 2),
            (Said{"connect stages", "2-3", "1-2", "connect stages for gradients", "2-3", "1-2"}));
  EXPECT_EQ(connections(1, 0), Said{});
  // In this order no two wait for each other in a circle.
  for (const int stages : {3, 5, 8}) {
    std::vector<Said> left;
    for (int rank = 0; rank < stages; ++rank) {
      auto said = connections(stages, rank);
      std::erase_if(said, [](const auto& text) { return text.starts_with("connect"); });
      left.push_back({said.rbegin(), said.rend()});
    }
    bool moved = true;
    while (moved) {
      moved = false;
      for (auto& own : left) {
        for (auto& other : left) {
          if (&own == &other || own.empty() || other.empty() || own.back() != other.back())
            continue;
          own.pop_back();
          other.pop_back();
          moved = true;
        }
      }
    }
    for (const auto& own : left) EXPECT_TRUE(own.empty()) << stages;
  }
}

TEST(Group, CountsHowLongItWaits) {
  run_thread_ranks(2, [](const Group& group) {
    if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(200));
    group.all_reduce(at::zeros({4}), ReduceOp::Sum, "late");
    if (group.rank() == 0) {
      EXPECT_GT(group.traffic().waited, 0.1);
      EXPECT_LT(group.traffic().waited, 10);
    }
    const double before = group.traffic().waited;
    auto handle = group.start_all_reduce(at::zeros({4}), ReduceOp::Sum, "beside");
    handle.wait();
    EXPECT_EQ(group.traffic().waited, before) << "who starts and waits counts himself";
    EXPECT_EQ(group.over([](auto engine) { return engine; }).traffic().waited, before);
  });
}

}  // namespace
}  // namespace convoy::comm
