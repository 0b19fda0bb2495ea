#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "tests/cli/command_testing.h"
#include "tests/launch/link_testing.h"

// Two hosts of two ranks each: shared memory inside, Gloo over the link between them.
namespace convoy {
namespace {

class OverLink : public CommandTest {
 protected:
  void SetUp() override {
    if (!link_.why_not().empty()) GTEST_SKIP() << link_.why_not();
    CommandTest::SetUp();
    make_sessions(300);
  }

  /// Trains on both hosts; output_ is host b's and then host a's. Its exit code is that of `a`.
  int train_on_both(const std::string& options, int ranks_on_each = 2) {
    const auto on = [&](const std::string& host) {
      return fmt::format(
          "unshare --uts bash -c \"echo host-{4} > /proc/sys/kernel/hostname; exec ip netns exec "
          "{0} $convoy launch --nnodes 2 --node-rank {1} -n {5} --rdzv-endpoint {2}:29400 "
          "--rdzv-conf heartbeat_timeout=5 train {3} > said-{4} 2>&1\" ",
          link_.space(host), host == "a" ? 0 : 1, launch::Link::address("a"), kTiny + options, host,
          ranks_on_each);
    };
    return shell("export CONVOY_TOKEN=0123456789abcdef PATH=$PATH:/sbin:/usr/sbin; " + on("b") +
                 "& " + on("a") +
                 "; code=$?; wait $!; echo host b ended with $?; cat said-b said-a; "
                 "exit $code");
  }

  launch::Link link_;
};

TEST_F(OverLink, LateAndLostPacketsOnlyTakeTime) {
  const std::string steps = "--max_steps 6 --per_device_train_batch_size 4 --save_strategy no ";
  ASSERT_EQ(run("launch -n 4 train" + kTiny + steps + "--output_dir one"), 0) << output_;
  link_.set_delay(std::chrono::milliseconds(10));
  link_.set_loss(0.03);
  ASSERT_EQ(train_on_both(steps + "--output_dir two"), 0) << output_;
  expect("starting on 2 hosts: ");
  expect("host b ended with 0");
  EXPECT_GT(link_.lost(), 0);
  // The sums are made host by host: the last bits differ.
  const double one = json("one/all_results.json")["train_loss"];
  const double two = json("two/all_results.json")["train_loss"];
  EXPECT_NEAR(two, one, 1e-5 * one);
}

TEST_F(OverLink, ShardsOfTheStateTrainLikeWholeOnesOnEachHost) {
  const std::string steps =
      "--max_steps 8 --per_device_train_batch_size 4 --save_strategy no --bucket_cap_mb 0 ";
  ASSERT_EQ(run("launch -n 4 train" + kTiny + steps + "--output_dir ddp"), 0) << output_;
  const auto expected = losses("ddp");
  ASSERT_EQ(expected.size(), 8U);
  // Shards over all four ranks, and a state replica on each host.
  int number = 0;
  for (const char* options :
       {"--zero 1", "--zero 2 --gradient_accumulation_steps 2 --per_device_train_batch_size 2",
        "--zero 3", "--zero 3 --shard_ranks host"}) {
    SCOPED_TRACE(options);
    const auto out = fmt::format("out-{}", number++);
    ASSERT_EQ(train_on_both(fmt::format("{}{} --output_dir {}", steps, options, out)), 0)
        << output_;
    expect("host b ended with 0");
    expect_near(expected, losses(out));
  }
}

TEST_F(OverLink, TensorRanksThatDoNotShareAHostTrainAndWarn) {
  const std::string steps = "--max_steps 4 --save_strategy no --tensor_parallel_size 2 ";
  ASSERT_EQ(run("launch -n 2 train" + kTiny + steps + "--output_dir one"), 0) << output_;
  EXPECT_FALSE(says("waits for the network")) << output_;
  ASSERT_EQ(train_on_both(steps + "--output_dir two", 1), 0) << output_;
  expect("tensor ranks 0 and 1 are on host-a and host-b: each layer waits for the network");
  expect_near(losses("one"), losses("two"), 1e-5);
}

TEST_F(OverLink, WhenItIsCutAllRanksStopAndSayWhereTheyWere) {
  auto cutter = std::thread([&] {
    wait_for_steps();
    link_.cut();
  });
  const auto code =
      train_on_both("--max_steps 1000000 --save_strategy no --ddp_timeout 3 --output_dir out");
  cutter.join();
  EXPECT_NE(code, 0);
  EXPECT_FALSE(says("host b ended with 0"));
  // Ranks 1 and 3 wait for the first of their host, which waits for the other host.
  for (int rank = 0; rank < 4; ++rank) expect(fmt::format("error on rank {} of 4", rank));
  expect(", between hosts' did not finish");
  expect("only 1 of 2 hosts left after host ");
  expect("is gone: silent for 5 s");
  EXPECT_EQ(shell("ip netns pids " + link_.space("a") + "; ip netns pids " + link_.space("b")), 0);
  EXPECT_EQ(output_, "") << "processes are left";
}

}  // namespace
}  // namespace convoy
