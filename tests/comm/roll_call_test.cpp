#include "convoy/comm/roll_call.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <numeric>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "convoy/base/error.h"
#include "convoy/base/json.h"
#include "convoy/comm/hierarchy/hierarchy_engine.h"
#include "convoy/comm/hosts.h"
#include "convoy/comm/rendezvous.h"
#include "tests/comm/ranks_testing.h"

namespace convoy::comm {
namespace {

/// One rank's way to a store; counts what it asks of it.
class CountingStore : public c10d::Store {
 public:
  explicit CountingStore(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  int64_t count() const { return count_; }

  c10::intrusive_ptr<c10d::Store> clone() override {
    return c10::make_intrusive<CountingStore>(store_);
  }
  using c10d::Store::set;
  using c10d::Store::wait;
  void set(const std::string& key, const std::vector<uint8_t>& value) override {
    ++count_;
    store_->set(key, value);
  }
  std::vector<uint8_t> get(const std::string& key) override {
    count_ += 2;  // over the network it waits first
    return store_->get(key);
  }
  int64_t add(const std::string& key, int64_t value) override {
    ++count_;
    return store_->add(key, value);
  }
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override {
    ++count_;
    return store_->compareSet(key, expected, desired);
  }
  bool deleteKey(const std::string& key) override {
    ++count_;
    return store_->deleteKey(key);
  }
  bool check(const std::vector<std::string>& keys) override {
    ++count_;
    return store_->check(keys);
  }
  int64_t getNumKeys() override { return store_->getNumKeys(); }
  void wait(const std::vector<std::string>& keys) override {
    ++count_;
    store_->wait(keys);
  }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    ++count_;
    store_->wait(keys, timeout);
  }
  std::vector<std::vector<uint8_t>> multiGet(const std::vector<std::string>& keys) override {
    ++count_;
    return store_->multiGet(keys);
  }
  void multiSet(const std::vector<std::string>& keys,
                const std::vector<std::vector<uint8_t>>& values) override {
    ++count_;
    store_->multiSet(keys, values);
  }
  bool hasExtendedApi() const override { return true; }

 private:
  c10::intrusive_ptr<c10d::Store> store_;
  std::atomic<int64_t> count_ = 0;
};

/// The most that one rank asks of the store to be in groups of all and of some.
int64_t most_requests(const std::string& backend, int num_ranks) {
  constexpr int kStages = 4;
  const auto shared = c10::make_intrusive<c10d::HashStore>();
  std::atomic<int64_t> most = 0;
  // They outlive the threads: a rank that closed its connections while another one still waits for
  // its own would be one that died.
  std::vector<std::vector<Group>> groups(static_cast<size_t>(num_ranks));
  run_threads(num_ranks, [&](int rank) {
    const auto store = c10::make_intrusive<CountingStore>(shared);
    StoreAddress point{.rank = rank, .size = num_ranks, .timeout = std::chrono::seconds(60)};
    const Connector connector(point, store, backend, at::kCPU, {"zero = 1"});
    std::vector<int> world(static_cast<size_t>(num_ranks)), stages, data;
    std::iota(world.begin(), world.end(), 0);
    for (int r = 0; r < num_ranks; ++r) {
      if (r % (num_ranks / kStages) == rank % (num_ranks / kStages)) stages.push_back(r);
      if (r / (num_ranks / kStages) == rank / (num_ranks / kStages)) data.push_back(r);
    }
    groups[static_cast<size_t>(rank)] = {
        connector.connect(world, "world"),
        connector.connect(stages, fmt::format("pipeline-{}", stages.front())),
        connector.connect(data, fmt::format("data-{}", data.front()))};
    int64_t before = most;
    while (before < store->count() && !most.compare_exchange_weak(before, store->count())) {
    }
  });
  return most;
}

TEST(RollCall, AsksTheStoreAFewTimesHoweverManyRanksThereAre) {
  EXPECT_LE(most_requests("auto", 64), 10);
  const auto over_gloo = most_requests("gloo", 16);
  EXPECT_LE(over_gloo, 10);
  EXPECT_EQ(over_gloo, most_requests("gloo", 8));
}

/// The same on hosts that are told apart by number, with a pipeline of two stages: a host is of one
/// stage, and each stage has several hosts.
int64_t most_requests_on_hosts(int num_hosts, int on_host) {
  const int num_ranks = num_hosts * on_host, half = num_ranks / 2;
  const auto shared = c10::make_intrusive<c10d::HashStore>();
  std::atomic<int64_t> most = 0;
  run_threads(num_ranks, [&](int rank) {
    const auto store = c10::make_intrusive<CountingStore>(shared);
    const StoreAddress point{.rank = rank, .size = num_ranks, .timeout = std::chrono::seconds(60)};
    roll_call(point, store, {"host"}, point.timeout);
    const auto join = [&](const std::vector<int>& ranks, const std::string& name) {
      auto own = point;
      own.size = static_cast<int>(ranks.size());
      own.rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
      own.names = ranks;
      std::vector<std::string> names;
      for (const int r : ranks) names.push_back(std::to_string(r / on_host));
      const auto hosts = number_hosts(names);
      const auto prefixed = c10::make_intrusive<c10d::PrefixStore>(name, store);
      const bool alone = hosts.back() + 1 == own.size;
      const auto group =
          alone ? make_gloo_group(own, prefixed) : make_hierarchy_group(own, prefixed, hosts);
      auto sum = at::ones({3});
      group.all_reduce(sum, ReduceOp::Sum, "sum");
      EXPECT_EQ(sum[0].item<float>(), static_cast<float>(own.size));
    };
    std::vector<int> world(static_cast<size_t>(num_ranks)), stages{rank % half, rank % half + half},
        data(static_cast<size_t>(half));
    std::iota(world.begin(), world.end(), 0);
    std::iota(data.begin(), data.end(), rank / half * half);
    join(world, "world");
    join(stages, fmt::format("pipeline-{}", stages.front()));
    join(data, fmt::format("data-{}", data.front()));
    int64_t before = most;
    while (before < store->count() && !most.compare_exchange_weak(before, store->count())) {
    }
  });
  return most;
}

TEST(RollCall, AsksTheStoreAFewTimesOnSeveralHosts) {
  const auto most = most_requests_on_hosts(/*num_hosts=*/4, /*on_host=*/4);
  EXPECT_LE(most, 10) << "a group of several hosts has three engines, which one connects";
  EXPECT_EQ(most, most_requests_on_hosts(4, 8));
  EXPECT_EQ(most, most_requests_on_hosts(8, 2));
}

TEST(RollCall, TellsEachWhatAllSay) {
  const auto shared = c10::make_intrusive<c10d::HashStore>();
  run_threads(5, [&](int rank) {
    const StoreAddress point{.rank = rank, .size = 5};
    const auto said = roll_call(point, shared, {"host", fmt::format("gpu {}\n\xff", rank % 3)},
                                std::chrono::seconds(20));
    ASSERT_EQ(said.size(), 5u);
    for (size_t r = 0; r < 5; ++r) {
      EXPECT_EQ(said[r].at(0), "host");
      EXPECT_EQ(said[r].at(1).substr(0, 6), fmt::format("gpu {}\n", r % 3));
    }
  });
}

TEST(RollCall, NamesOnAllRanksThoseThatDoNotCome) {
  for (const std::vector<int>& absent : {std::vector<int>{2, 4}, {0}, {0, 3}}) {
    const auto shared = c10::make_intrusive<c10d::HashStore>();
    run_threads(5, [&](int rank) {
      if (std::count(absent.begin(), absent.end(), rank) > 0) return;
      const StoreAddress point{.rank = rank,
                               .size = 5,
                               .timeout = std::chrono::seconds(1),
                               .names = {0, 10, 20, 30, 40}};
      try {
        roll_call(point, shared, {}, point.timeout);
        ADD_FAILURE();
      } catch (const CommunicationError& error) {
        std::vector<int> names;
        for (const int r : absent) names.push_back(10 * r);
        EXPECT_EQ(error.missing(), names) << error.what();
      }
    });
  }
}

/// Message of a rank that comes to a store where others meet; they must not notice.
std::string message_of_intruder(const StoreAddress& intruder) {
  const auto shared = c10::make_intrusive<c10d::HashStore>();
  std::string message = "no error";
  std::atomic<bool> is_over = false;
  run_threads(3, [&](int rank) {
    if (rank == 2) {
      try {
        const Connector connector(intruder, shared, "gloo", at::kCPU, {});
      } catch (const Error& error) {
        message = error.what();
      }
      is_over = true;
      return;
    }
    const StoreAddress point{
        .rank = rank, .size = 2, .job = "SLURM 7.0", .timeout = std::chrono::seconds(20)};
    while (rank == 1 && !is_over) std::this_thread::yield();  // comes after the other one
    const Connector connector(point, shared, "gloo", at::kCPU, {});
    auto sum = at::ones({1});
    connector.connect({0, 1}, "world").all_reduce(sum, ReduceOp::Sum, "sum");
    EXPECT_EQ(sum.item<float>(), 2);
  });
  return message;
}

TEST(RollCall, RefusesARankOfAnotherJob) {
  StoreAddress other{.rank = 1, .size = 2, .job = "SLURM 7.1", .timeout = std::chrono::seconds(20)};
  EXPECT_EQ(message_of_intruder(other),
            "[comm] start: at 127.0.0.1:29500 the 2 ranks of another job 'SLURM 7.0' meet; "
            "expected the 2 of job 'SLURM 7.1'; try another MASTER_PORT");
  other.job = "";
  other.size = 3;
  EXPECT_NE(message_of_intruder(other).find("expected the 3 of job; try"), std::string::npos);
}

TEST(RollCall, RefusesASecondProcessWithTheNumberOfOneThatLives) {
  const auto outcome_beside = [&](const std::string& holder) -> std::string {
    const auto shared = c10::make_intrusive<c10d::HashStore>();
    const std::string said = json_line(std::vector<std::string>{"host", holder});
    shared->set("said/1", std::vector<uint8_t>(said.begin(), said.end()));
    std::string message = "no error";
    run_threads(2, [&](int rank) {
      const StoreAddress point{.rank = rank, .size = 2, .timeout = std::chrono::seconds(20)};
      try {
        roll_call(point, shared, {"host"}, point.timeout);
      } catch (const UsageError& error) {
        message = error.what();
      }
    });
    return message;
  };
  EXPECT_EQ(outcome_beside(own_host() + "|1"),
            "[comm] start: process 1 of this host is rank 1 at 127.0.0.1:29500 already; expected "
            "one process for each rank; try another MASTER_PORT where that one is of another job");
  EXPECT_NE(outcome_beside("elsewhere|12").find("process 12 of another host"), std::string::npos);
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  EXPECT_EQ(outcome_beside(fmt::format("{}|{}", own_host(), gone)), "no error")
      << "started again by hand";
}

TEST(RollCall, NamesTheOptionInWhichARankDiffers) {
  const auto shared = c10::make_intrusive<c10d::HashStore>();
  run_threads(3, [&](int rank) {
    const StoreAddress point{.rank = rank, .size = 3, .timeout = std::chrono::seconds(20)};
    try {
      const Connector connector(point, shared, "gloo", at::kCPU,
                                {"zero = 3", rank == 2 ? "prefetch = 2" : "prefetch = 1"});
      ADD_FAILURE();
    } catch (const UsageError& error) {
      EXPECT_EQ(std::string(error.what()),
                "[comm] the options of rank 2 and of rank 0 differ; got prefetch = 2 on rank 2, "
                "prefetch = 1 on rank 0; expected the same on all ranks");
    }
  });
}

// With rank 0 the store goes, where the others may still be reading what was said.
TEST(RollCall, RankZeroLeavesNoBackendBeforeAllHaveHeard) {
  const auto shared = c10::make_intrusive<c10d::HashStore>();
  std::atomic<int> told{0};
  run_threads(3, [&](int rank) {
    const StoreAddress point{.rank = rank, .size = 3, .timeout = std::chrono::seconds(20)};
    const Connector connector(point, shared, "smoke", at::kCPU, {});
    if (rank == 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    try {
      connector.connect({0, 1, 2}, "world");
    } catch (const UsageError& error) {
      told += std::string(error.what()).find("backend = smoke is unknown") != std::string::npos;
      if (rank == 0) {
        const auto before = size_and_job(point) + "/";
        EXPECT_TRUE(shared->check({before + "heard/1", before + "heard/2"}));
      }
    }
  });
  EXPECT_EQ(told, 3);
}

}  // namespace
}  // namespace convoy::comm
