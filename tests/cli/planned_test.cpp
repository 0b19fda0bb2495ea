#include <fmt/format.h>

#include <string>

#include "tests/cli/ranks_testing.h"

// Ranks that plan how they share their work, once they have met.
namespace convoy {
namespace {

class PlannedRun : public Ranks {
 protected:
  void SetUp() override { CommandTest::SetUp(); }

  static std::string train(const std::string& more) {
    return "train --strategy plan --family gpt2 --n_embd 64 --n_layer 3 --n_head 4 --n_positions "
           "64 --vocab_size 500 --random_tokens 40000 --block_size 32 --threads 1 "
           "--global_batch_size 8 " +
           more;
  }
};

TEST_F(PlannedRun, KeepsItsPlanUntilTheRanksChange) {
  ASSERT_EQ(run(train("--nproc 2 --max_steps 4 --save_steps 4 --output_dir out")), 0) << output_;
  expect("and a plan chooses the parallelism");
  expect("predicted:");
  expect("= 8 in total");
  expect("step time predicted");
  const auto toml = read_file(folder_ / "out/run.toml");
  EXPECT_NE(toml.find("strategy = \"plan\""), std::string::npos);
  EXPECT_NE(toml.find("global_batch_size = 8\n"), std::string::npos);
  const auto plan = json("out/plan.json");
  EXPECT_EQ(plan, json("out/checkpoint-4/plan.json"));
  EXPECT_EQ(plan["for"]["ranks"], 2);
  for (const auto& [key, value] : plan["settings"].items()) {
    const auto name = key.substr(key.find('.') + 1);
    if (value == "") continue;
    EXPECT_TRUE(toml.find(fmt::format("\n{} = {}\n", name, value.get<std::string>())) !=
                    std::string::npos ||
                toml.find(fmt::format("\n{} = \"{}\"\n", name, value.get<std::string>())) !=
                    std::string::npos)
        << key << " = " << value;
  }
  const auto results = json("out/train_results.json");
  EXPECT_GT(results["planned_step_seconds"].get<double>(), 0);
  EXPECT_GT(results["train_step_seconds"].get<double>(), 0);
  // Blocks were run for what the estimate says that the training will hold.
  EXPECT_NEAR(results["planned_memory_bytes_per_rank"].get<double>() /
                  results["memory_bytes_per_rank"].get<double>(),
              1, 0.15);

  // The run's own file holds the plan and asks for one.
  ASSERT_EQ(run("train out/run.toml --nproc 2 --max_steps 5 --resume_from_checkpoint latest"), 0)
      << output_;
  expect("kept from the checkpoint");
  // Made on another processor.
  auto other = json("out/checkpoint-5/plan.json");
  other["for"]["processor"] = "one from long ago";
  write_file(folder_ / "out/checkpoint-5/plan.json", other.dump());
  ASSERT_EQ(run("train out/run.toml --nproc 2 --max_steps 6 --resume_from_checkpoint latest"), 0)
      << output_;
  EXPECT_FALSE(says("kept from the checkpoint")) << output_;
  EXPECT_EQ(json("out/plan.json")["for"]["processor"], plan["for"]["processor"]);
  ASSERT_EQ(run(train("--max_steps 7 --resume_from_checkpoint latest --output_dir out")), 0)
      << output_;
  EXPECT_FALSE(says("kept from the checkpoint")) << output_;
  expect("= 8 in total");
  EXPECT_EQ(json("out/plan.json")["for"]["ranks"], 1);
}

TEST_F(PlannedRun, PassesOverABrokenPlanAsOverABrokenCheckpoint) {
  const auto one = train("--max_steps 4 --save_steps 2 --output_dir out ");
  ASSERT_EQ(run(one), 0) << output_;
  write_file(folder_ / "out/checkpoint-4/plan.json", "{\"for\": ");
  ASSERT_EQ(run(one + "--max_steps 6 --resume_from_checkpoint latest"), 0) << output_;
  EXPECT_EQ(json("out/plan.json")["for"]["ranks"], 1);
  EXPECT_EQ(json("out/trainer_state.json")["global_step"], 6);
}

TEST_F(PlannedRun, TrainsAsTheSameRowsDoOnOneDevice) {
  const std::string steps = "--max_steps 3 --logging_steps 1 --save_strategy no --output_dir ";
  ASSERT_EQ(run(train("--strategy single " + steps + "one")), 0) << output_;
  ASSERT_EQ(shell(torchrun("$convoy " + train(steps + "two"))), 0) << output_;
  expect("torchrun started 2 ranks");
  expect_near(losses("one"), losses("two"), 1e-5);
}

TEST_F(PlannedRun, SaysWhatDoesNotGo) {
  EXPECT_EQ(run(train("--nproc 2 --zero 1")), 2) << output_;
  expect("--zero is for a plan to decide");
  EXPECT_EQ(run(train("--nproc 2 --device_memory 1MB")), 2) << output_;
  expect("no plan fits. Nothing fits: the smallest split");
  write_file(folder_ / "run.toml", "");
  EXPECT_EQ(run("bench step run.toml --strategy plan --family gpt2 --random_tokens 4000 "
                "--block_size 32 --n_positions 64 --n_embd 32 --n_layer 1 --n_head 2"),
            2)
      << output_;
  expect("strategy = plan is for convoy train");
}

TEST_F(PlannedRun, RanksNeedNotBeNumberedHostByHost) {
  const auto rank = [&](int number) {
    return fmt::format(
        "RANK={0} WORLD_SIZE=4 LOCAL_RANK={1} LOCAL_WORLD_SIZE=2 GROUP_RANK={2} "
        "MASTER_ADDR=127.0.0.1 MASTER_PORT=$port OMP_NUM_THREADS=1 $convoy {3} & p{0}=$!; ",
        number, number / 2, number % 2,
        train("--max_steps 1 --save_strategy no --ddp_timeout 60 --output_dir out"));
  };
  ASSERT_EQ(shell(kChoosePort + rank(0) + rank(1) + rank(2) + rank(3) +
                  "code=0; for p in $p1 $p2 $p3 $p0; do wait $p || code=$?; done; exit $code"),
            0)
      << output_;
  EXPECT_EQ(json("out/plan.json")["for"]["hosts"], 2);
}

TEST_F(PlannedRun, HostsPlanTogether) {
  const auto steps = train("--max_steps 3 --logging_steps 1 --save_strategy no --output_dir ");
  const auto host = "$convoy launch --nnodes 2 --rdzv_endpoint 127.0.0.1:$port -n 1 " + steps;
  ASSERT_EQ(shell("export CONVOY_TOKEN=$(head -c 24 /dev/urandom | base64); "
                  "port=$((20000 + $$ % 10000)); " +
                  host + "hosts & " + host + "hosts; code=$?; wait $! && exit $code"),
            0)
      << output_;
  expect("starting on 2 hosts: ");
  expect("step time predicted");
  const auto plan = json("hosts/plan.json");
  EXPECT_EQ(plan["for"]["hosts"], 2);
  EXPECT_EQ(plan["for"]["ranks"], 2);
  ASSERT_EQ(run(steps + "one"), 0) << output_;
  ASSERT_EQ(losses("one").size(), 3U);
  expect_near(losses("one"), losses("hosts"), 1e-5);
}

}  // namespace
}  // namespace convoy
