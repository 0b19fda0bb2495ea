#include <fmt/format.h>

#include <algorithm>

#include "tests/cli/ranks_testing.h"
#include "tests/data/parquet_testing.h"

// Real processes that keep shards: two state replicas, gathers that go on into the next step,
// and fewer ranks than before.
namespace convoy {
namespace {

class ZeroCommand : public Ranks {
 protected:
  static std::string train(int64_t steps, const std::string& more) {
    return fmt::format("train{}--bucket_cap_mb 0 --max_steps {} {}", kTiny, steps, more);
  }

  struct Event {
    double at, end;
    std::string name;
  };
  /// What a trace has marked, by its beginning.
  std::vector<Event> traced(const std::string& file) const {
    std::vector<Event> out;
    const auto trace = json(file);
    for (const auto& event : trace["traceEvents"]) {
      if (event.value("ph", "") != "X") continue;
      const double at = event["ts"], took = event["dur"];
      out.push_back({at, at + took, event["name"].get<std::string>()});
    }
    std::stable_sort(out.begin(), out.end(),
                     [](const Event& a, const Event& b) { return a.at < b.at; });
    return out;
  }
};

TEST_F(ZeroCommand, TwoStateReplicasTrainLikeOneOverSharedMemoryAndGloo) {
  const auto four = train(10, "--save_strategy no --nproc 4 ");
  ASSERT_EQ(run(four + "--output_dir ddp"), 0) << output_;
  const auto expected = losses("ddp");
  ASSERT_EQ(expected.size(), 10U);
  for (const char* options : {"--zero 2 --backend shm", "--zero 3 --backend shm",
                              "--zero 3 --backend gloo --offload_optimizer disk --offload_dir ."}) {
    SCOPED_TRACE(options);
    ASSERT_EQ(run(four + "--shard_ranks 2 --output_dir replicas --overwrite_output_dir " + options),
              0)
        << output_;
    expect_near(expected, losses("replicas"));
  }
  EXPECT_EQ(run(four + "--zero 2 --shard_ranks 3"), 2) << output_;
  expect("shard_ranks = 3 does not divide the 4 ranks of the job; try 2");
  EXPECT_EQ(run(train(1, "--save_strategy no --zero 1 --shard_ranks 2")), 0) << output_;
  expect("warning: shard_ranks = 2 has no effect in one process");
}

TEST_F(ZeroCommand, ShardsInHalfPrecisionEndInTheBitsOfWholeOnes) {
  for (const auto& [precision, stage] : {std::pair{"--bf16", 3}, {"--fp16", 2}}) {
    SCOPED_TRACE(precision);
    const auto options = fmt::format("--nproc 2 --overwrite_output_dir {} ", precision);
    ASSERT_EQ(run(train(5, options + "--output_dir ddp")), 0) << output_;
    ASSERT_EQ(run(train(5, fmt::format("{} --output_dir sharded --zero {}", options, stage))), 0)
        << output_;
    EXPECT_EQ(losses("ddp"), losses("sharded"));
    EXPECT_TRUE(model("ddp") == model("sharded"));
  }
}

TEST_F(ZeroCommand, AJobThatLosesARankGoesOnWithFewer) {
  const std::string options = "--zero 3 --save_steps 2 --ddp_timeout 5 ";
  ASSERT_EQ(run(train(8, options + "--nproc 3 --output_dir calm")), 0) << output_;
  EXPECT_NE(shell("CONVOY_FAULT=sigkill@2:gather:5 $convoy " +
                  train(8, options + "--nproc 3 --output_dir out")),
            0)
      << output_;
  expect("rank 2 failed first");
  ASSERT_EQ(run(train(8, options + "--nproc 2 --per_device_train_batch_size 12 --output_dir out "
                                   "--resume_from_checkpoint latest")),
            0)
      << output_;
  const auto calm = losses("calm"), out = losses("out");
  ASSERT_EQ(calm.size(), 8U);
  expect_near(calm, out, 0);
}

TEST_F(ZeroCommand, ARankWithoutARowTakesPartInPredicting) {
  ASSERT_EQ(run(train(2, "--output_dir out")), 0) << output_;
  data::testing::write_parquet(folder_ / "one.parquet",
                               {{"item_id-list", data::testing::int_lists({{3, 5, 7}})}});
  const std::string one_row = "timeout 60 $convoy predict out --data one.parquet --top-k 3 ";
  ASSERT_EQ(shell(one_row + "--output alone.csv"), 0) << output_;
  const auto alone = read_file(folder_ / "alone.csv");
  EXPECT_EQ(std::count(alone.begin(), alone.end(), '\n'), 4) << alone;
  for (const int stage : {1, 2, 3}) {
    const auto file = fmt::format("zero{}.csv", stage);
    ASSERT_EQ(shell(fmt::format("{}--nproc 2 --zero {} --output {}", one_row, stage, file)), 0)
        << output_;
    EXPECT_EQ(read_file(folder_ / file), alone) << "stage " << stage;
  }
}

TEST_F(ZeroCommand, WeightsAreGatheredIntoTheNextForward) {
  ASSERT_EQ(run(train(8, "--save_strategy no --zero 1 --nproc 2 --trace t.json --trace_steps 2")),
            0)
      << output_;
  const auto events = traced("t.json");
  const auto after = [&](size_t from, const std::string& begin) {
    while (from < events.size() && !events[from].name.starts_with(begin)) ++from;
    return from;
  };
  for (const char* bucket : {"bucket 0", "bucket 1"}) {
    const auto start = after(0, fmt::format("start: gather {}", bucket));
    const auto load = after(start, "load");
    ASSERT_LT(load, events.size()) << bucket;
    const auto wait = after(start, fmt::format("wait: gather {}", bucket));
    ASSERT_LT(wait, events.size()) << bucket;
    EXPECT_GT(wait, load) << bucket << " is waited for before the next step";
    EXPECT_GT(after(load, "forward block"), load);
    EXPECT_LT(after(load, "forward block"), wait) << bucket << " is waited for where it is read";
  }
}

TEST_F(ZeroCommand, WeightsAreGatheredWhileOthersAreComputedWith) {
  const auto hidden = [&](int prefetch) {
    const auto file = fmt::format("t{}.json", prefetch);
    EXPECT_EQ(run(train(6, fmt::format("--save_strategy no --zero 3 --nproc 2 --prefetch {0} "
                                       "--trace {1} --trace_steps 2 --output_dir out{0}",
                                       prefetch, file))),
              0)
        << output_;
    const auto events = traced(file);
    int64_t gathers = 0, out = 0;
    for (auto start = events.begin(); start != events.end(); ++start) {
      if (!start->name.starts_with("start: gather bucket")) continue;
      ++gathers;
      const auto label = start->name.substr(7, start->name.find(',') - 7);
      const auto wait = std::find_if(
          start, events.end(), [&](const Event& event) { return event.name == "wait: " + label; });
      if (wait == events.end()) continue;
      out += std::any_of(start, wait, [&](const Event& event) {
        const bool computes =
            event.name.starts_with("forward block") || event.name.starts_with("backward block");
        return computes && event.at >= start->end && event.end <= wait->at;
      });
    }
    EXPECT_GT(gathers, 0);
    return out;
  };
  EXPECT_EQ(hidden(0), 0);
  EXPECT_GE(hidden(1), 2) << "one in each of the two steps, at least";
}

TEST_F(ZeroCommand, BenchComparesTheStages) {
  write_file(folder_ / "run.toml", "");
  const auto bench = [&](const std::string& strategies, int ranks) {
    EXPECT_EQ(run(fmt::format("bench strategies run.toml{}--max_steps 3 --bucket_cap_mb 0 "
                              "--strategies {} --ranks {} --output table{}",
                              kTiny, strategies, ranks, ranks)),
              0)
        << output_;
    return json(fmt::format("table{}/strategies.json", ranks));
  };
  const auto rows = bench("zero2-disk,ddp,zero1,zero2,zero3", 2);
  ASSERT_EQ(rows.size(), 5);
  EXPECT_EQ(rows[1]["strategy"], "ddp");
  const double ddp = rows[1]["loss"];
  for (const auto& row : rows) EXPECT_EQ(row["loss"], ddp) << row["strategy"];
  const auto hybrid = bench("zero2-hybrid", 4);
  ASSERT_EQ(hybrid.size(), 1);
  EXPECT_NEAR(hybrid[0]["loss"], ddp, 1e-4 * ddp);
  EXPECT_EQ(hybrid[0]["ranks"], 4);
}

}  // namespace
}  // namespace convoy
