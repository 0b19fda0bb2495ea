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
  inline static const std::string kLanguageModel =
      " --family gpt2 --n_embd 256 --n_layer 1 --n_head 4 --n_positions 64 --vocab_size 500 "
      "--random_tokens 40000 --block_size 64 --threads 1 --global_batch_size 32 --max_steps 4 "
      "--save_strategy no ";

  void SetUp() override {
    if (!link_.why_not().empty()) GTEST_SKIP() << link_.why_not();
    CommandTest::SetUp();
    make_sessions(300);
  }

  /// Trains on both hosts; output_ is host b's and then host a's. Its exit code is that of `a`.
  int train_on_both(const std::string& options, int ranks_on_each = 2) {
    return run_on_both("train" + kTiny + options, ranks_on_each);
  }

  int run_on_both(const std::string& command, int ranks_on_each) {
    const auto on = [&](const std::string& host) {
      return fmt::format(
          "unshare --uts bash -c \"echo host-{4} > /proc/sys/kernel/hostname; exec ip netns exec "
          "{0} $convoy launch --nnodes 2 --node-rank {1} -n {5} --rdzv-endpoint {2}:29400 "
          "--rdzv-conf heartbeat_timeout=5 {3} > said-{4} 2>&1\" ",
          link_.space(host), host == "a" ? 0 : 1, launch::Link::address("a"), command, host,
          ranks_on_each);
    };
    return shell("export CONVOY_TOKEN=0123456789abcdef PATH=$PATH:/sbin:/usr/sbin; " + on("b") +
                 "& " + on("a") +
                 "; code=$?; wait $!; echo host b ended with $?; cat said-b said-a; "
                 "exit $code");
  }

  /// Lets the ranks plan over the link as it is, into a run of this name.
  void plan_on_both(const std::string& run) {
    ASSERT_EQ(run_on_both("train" + kLanguageModel + "--strategy plan --output_dir " + run, 1), 0)
        << output_;
  }

  /// What a step takes with the plan of that run.
  double step_seconds(const std::string& run, int steps) {
    const auto training = fmt::format(
        "train {}/run.toml --strategy auto --output_dir timed --overwrite_output_dir "
        "--max_steps {}",
        run, steps);
    EXPECT_EQ(run_on_both(training, 1), 0) << output_;
    return json("timed/train_results.json").at("train_step_seconds").get<double>();
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

TEST_F(OverLink, ASlowLinkChangesThePlanAndEachPlanWinsOnItsOwn) {
  constexpr double kSlow = 8e6;
  plan_on_both("fast");
  link_.set_bandwidth(kSlow);
  plan_on_both("slow");
  const double planned_on_slow = step_seconds("slow", 4), other_on_slow = step_seconds("fast", 4);
  link_.set_bandwidth(0);
  const double planned_on_fast = step_seconds("fast", 30), other_on_fast = step_seconds("slow", 30);
  const auto fast = json("fast/plan.json"), slow = json("slow/plan.json");
  SCOPED_TRACE(fast.dump(1) + slow.dump(1));
  EXPECT_EQ(fast["settings"]["parallel.pipeline_parallel_size"], "1");
  EXPECT_EQ(slow["settings"]["parallel.pipeline_parallel_size"], "2");
  EXPECT_LT(planned_on_slow, other_on_slow);
  EXPECT_LT(planned_on_fast, 1.1 * other_on_fast);  // the processor may be busy
  // Most of it the link's, which no other process makes slower.
  EXPECT_NEAR(slow["seconds"].get<double>() / planned_on_slow, 1, 0.35);
}

TEST_F(OverLink, AProfileOfBothHostsKnowsTheirLink) {
  constexpr double kSlow = 8e6;
  const auto profile = [&](const std::string& file) {
    ASSERT_EQ(run_on_both("profile" + kLanguageModel + "--output " + file, 1), 0) << output_;
    expect("all-reduce of 16 MiB over 2 ranks on 2 hosts: ");
    expect("wrote " + file);
  };
  profile("fast.json");
  link_.set_bandwidth(kSlow);
  profile("slow.json");
  // A sum of two ranks' bytes passes the link once in each direction.
  const double slow = json("slow.json")["sums"]["seconds_per_byte"];
  EXPECT_GT(slow * kSlow, 0.75);
  EXPECT_LT(json("fast.json")["sums"]["seconds_per_byte"], slow / 2);
  const auto plan = [&](const std::string& profile) {
    EXPECT_EQ(run("plan --json --profile " + profile + kLanguageModel), 0) << output_;
    return parse_json(output_, "plan");
  };
  const auto ddp_seconds = [](const Json& plan) {
    for (const auto& split : plan["families"]) {
      if (split["family"] == "ddp") return split["seconds"].get<double>();
    }
    return 0.0;
  };
  const auto over_fast = plan("fast.json"), over_slow = plan("slow.json");
  EXPECT_LT(ddp_seconds(over_fast), ddp_seconds(over_slow));
  EXPECT_EQ(over_slow["best"]["pipeline_parallel_size"], 2) << over_slow.dump(1);
  ASSERT_EQ(run("plan --output plan.toml --profile fast.json" + kLanguageModel), 0) << output_;
  expect("2 hosts x 1 device of this processor");
  expect("train it with: convoy launch --nnodes 2 --rdzv-endpoint HOST:29400 -n 1 train");
  // A plan of both hosts trains on both.
  link_.set_bandwidth(0);
  ASSERT_EQ(run_on_both("train plan.toml --output_dir planned", 1), 0) << output_;
  expect("step time predicted");
  EXPECT_EQ(run("plan --verify 1 --profile slow.json" + kLanguageModel), 2) << output_;
  expect("--verify tries plans on this host, but slow.json is of 2 hosts");
  EXPECT_EQ(run("bench plan --profile slow.json" + kLanguageModel), 2) << output_;
  expect("bench plan tries plans on this host, but slow.json is of 2 hosts");
}

TEST_F(OverLink, CutLinkStopsAllRanksWhichNameTheirOperation) {
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
