#include <signal.h>

#include <chrono>
#include <thread>

#include "convoy/base/text.h"
#include "tests/cli/command_testing.h"

// Real processes as ranks: the ways to start them agree, and when one dies all stop.
namespace convoy {
namespace {

class Ranks : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    make_sessions(300);
  }

  std::string model(const std::string& run) {
    return read_file(folder_ / run / "model.safetensors");
  }

  /// What torchrun sets, for two processes of one host.
  static std::string torchrun(const std::string& command) {
    const auto rank = [&](const std::string& r) {
      return "WORLD_SIZE=2 RANK=" + r + " LOCAL_RANK=" + r +
             " LOCAL_WORLD_SIZE=2 GROUP_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "
             "TORCHELASTIC_RUN_ID=none " +
             command + " & p" + r + "=$!; ";
    };
    return "port=$((20000 + $$ % 10000)); " + rank("0") + rank("1") + "wait $p1; wait $p0";
  }
};

TEST_F(Ranks, EveryWayToStartThemGivesTheSameBits) {
  const auto common = "train" + kTiny + "--max_steps 12 --save_strategy no ";
  ASSERT_EQ(run(common + "--gradient_accumulation_steps 2 --output_dir single"), 0) << output_;
  ASSERT_EQ(run(common + "--strategy dp --replicas 2 --output_dir dp"), 0) << output_;
  expect("strategy       dp");
  expect("DistributedDataParallel, a process per device, is usually faster");
  ASSERT_EQ(run("launch -n 2 " + common + "--output_dir launch"), 0) << output_;
  expect("strategy       ddp");
  expect("rank 0: 150 rows, 19 batches; rank 1: 150 rows, 19 batches");
  ASSERT_EQ(run(common + "--nproc 2 --output_dir nproc"), 0) << output_;
  ASSERT_EQ(shell(torchrun("$convoy " + common + "--output_dir torchrun")), 0) << output_;
  expect("torchrun");
  const auto expected = model("single");
  for (const char* run : {"dp", "launch", "nproc", "torchrun"}) {
    EXPECT_TRUE(model(run) == expected) << run;
  }
}

TEST_F(Ranks, EvaluationIsTheSameOnTwoRanks) {
  ASSERT_EQ(run("train" + kTiny + "--max_steps 12 --output_dir out"), 0) << output_;
  ASSERT_EQ(run("eval out --json"), 0) << output_;
  const auto one = parse_json(output_, "output");
  ASSERT_EQ(run("eval out --json --nproc 2"), 0) << output_;
  const auto two = parse_json(output_, "output");
  EXPECT_EQ(one["eval_samples"], two["eval_samples"]);
  EXPECT_DOUBLE_EQ(one["eval_ndcg_at_10"], two["eval_ndcg_at_10"]);
}

class Death : public Ranks, public ::testing::WithParamInterface<const char*> {};

TEST_P(Death, OfOneRankStopsAllWithinSeconds) {
  const std::string start = GetParam();
  const auto common = "$convoy " + std::string(start == "launch" ? "launch -n 2 " : "") + "train" +
                      kTiny + "--max_steps 1000000 --save_strategy no --output_dir out" +
                      (start == "nproc" ? " --nproc 2" : "");
  const auto command = start == "torchrun" ? torchrun(common) : common;
  int status = 0;
  std::thread job([&] { status = shell(command); });
  // Once steps are logged, kill rank 1.
  const auto log = folder_ / "out/log.jsonl";
  for (int i = 0; i < 600 && !(fs::exists(log) && fs::file_size(log) > 1000); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  pid_t victim = 0;
  std::vector<pid_t> ranks;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    int64_t pid = 0;
    if (!parse_number(entry.path().filename().string(), pid)) continue;
    std::string words, environment;
    try {
      if (fs::read_symlink(entry.path() / "cwd") != folder_) continue;
      environment = read_file(entry.path() / "environ");
    } catch (const std::exception&) {
      continue;
    }
    if (environment.find(std::string("\0RANK=", 6)) == std::string::npos) continue;
    ranks.push_back(static_cast<pid_t>(pid));
    if (environment.find(std::string("\0RANK=1\0", 8)) != std::string::npos) {
      victim = static_cast<pid_t>(pid);
    }
  }
  ASSERT_NE(victim, 0) << "no rank 1 was found";
  const auto killed = std::chrono::steady_clock::now();
  kill(victim, SIGKILL);
  job.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - killed;
  EXPECT_LT(took.count(), 10);
  EXPECT_NE(status, 0);
  if (start == "torchrun") {
    expect("convoy: error on rank 0 of 2");
  } else {
    expect("rank 1");
    expect("SIGKILL");
  }
  for (pid_t rank : ranks) EXPECT_NE(kill(rank, 0), 0) << "process " << rank << " is left";
}

INSTANTIATE_TEST_SUITE_P(Started, Death, ::testing::Values("launch", "nproc", "torchrun"));

}  // namespace
}  // namespace convoy
