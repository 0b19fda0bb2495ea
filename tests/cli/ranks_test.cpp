#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <map>
#include <set>
#include <sstream>
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
  const auto host = "$convoy launch --nnodes 2 --rdzv_endpoint 127.0.0.1:$port -n 1 " + common +
                    "--output_dir hosts ";
  ASSERT_EQ(shell("export CONVOY_TOKEN=$(head -c 24 /dev/urandom | base64); "
                  "port=$((20000 + $$ % 10000)); " +
                  host + "& " + host + "; code=$?; wait $! && exit $code"),
            0)
      << output_;
  expect("starting on 2 hosts: ");
  const auto expected = model("single");
  for (const char* run : {"dp", "launch", "nproc", "torchrun", "hosts"}) {
    EXPECT_TRUE(model(run) == expected) << run;
  }
}

TEST_F(Ranks, ElevenRowGroupsOverTwoRanksTrainOnEveryRow) {
  // As MovieLens-100K is written for Transformers4Rec, whose two ranks get 6 and 5 and hang.
  ASSERT_EQ(run("data synthetic --output films --items 60 --rows 5359"), 0) << output_;
  ASSERT_EQ(run("data inspect films/train.parquet --json"), 0) << output_;
  EXPECT_NE(output_.find("\"row_groups\": 11"), std::string::npos) << output_;
  const std::string common = "train" + kTiny +
                             "--data.path films --num_train_epochs 1 --save_strategy no "
                             "--per_device_train_batch_size 64 ";
  ASSERT_EQ(run(common + "--gradient_accumulation_steps 2 --output_dir alone"), 0) << output_;
  for (const char* partition : {"rows", "row_groups"}) {
    ASSERT_EQ(run("launch -n 2 " + common + "--output_dir " + partition + " --data.partition " +
                  partition),
              0)
        << output_;
    expect("rank 0: 2,680 rows, 42 batches; rank 1: 2,679 rows, 42 batches");
    EXPECT_EQ(json(std::string(partition) + "/trainer_state.json")["epoch"], 1.0);
  }
  EXPECT_TRUE(model("alone") == model("rows")) << "a row was left out or came twice";
}

TEST_F(Ranks, ATraceShowsInstructionsAndCollectivesOfEachRank) {
  const auto train = "train" + kTiny + "--max_steps 8 --save_strategy no --trace_steps 2 ";
  ASSERT_EQ(run(train + "--nproc 2 --output_dir out --trace traces/t.json"), 0) << output_;
  ASSERT_EQ(run(train + "--strategy dp --replicas 2 --output_dir dp --trace dp.json"), 0);
  for (const auto& [file, threads] : std::map<std::string, int>{
           {"traces/t.json", 1}, {"traces/t.rank1.json", 1}, {"dp.json", 2}}) {
    std::map<std::string, int> times;
    const auto trace = json(file);
    for (const auto& event : trace["traceEvents"]) {
      if (event.value("ph", "") == "X") ++times[event["name"].get<std::string>()];
    }
    // Replicas on one device share out the update.
    const std::string reduce = threads == 2 ? "reduce-scatter bucket 0" : "reduce bucket 0";
    for (const auto& name :
         {std::string("forward block 0, micro-batch 0"),
          threads == 2 ? reduce + ", micro-batch 0" : reduce, std::string("update bucket 0"),
          "wait: " + reduce, std::string("wait: reduce loss")}) {
      EXPECT_EQ(times[name], 2 * threads) << name << " in " << file;
    }
    EXPECT_GT(times["aten::mm"], 0) << file;
    const int rank = file == "traces/t.rank1.json" ? 1 : 0, ranks = threads == 2 ? 1 : 2;
    EXPECT_EQ(trace["distributedInfo"]["rank"], rank) << file;
    std::vector<std::string> processes;
    for (const auto& event : trace["traceEvents"]) {
      if (event["name"] == "process_name") processes.push_back(event["args"]["name"]);
    }
    const auto name = "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " on ";
    EXPECT_EQ(processes.at(0).find(name), 0) << processes[0];
  }
}

TEST_F(Ranks, ATableTellsWhereEachRankRuns) {
  const auto train = "train" + kTiny + "--max_steps 2 --save_strategy no ";
  ASSERT_EQ(run("launch -n 2 --log-dir logs -r 0:3 " + train), 0) << output_;
  EXPECT_EQ(output_.find("strategy "), std::string::npos) << "rank 0 is kept only: " << output_;
  ASSERT_EQ(run("launch -n 2 " + train), 0) << output_;
  EXPECT_EQ(output_.find("cores"), std::string::npos) << "nothing to tell: " << output_;
  expect("convoy launch started 2 ranks");
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "needs two cores";
  ASSERT_EQ(run("launch -n 2 --numa-binding exclusive " + train), 0) << output_;
  const auto table = output_.find("rank  host");
  ASSERT_NE(table, std::string::npos) << output_;
  EXPECT_NE(output_.find("cpu     0", table), std::string::npos) << output_;
  EXPECT_NE(run("launch -n 2 --tee 3 " + train), 0);
  expect("try --log-dir logs");
  EXPECT_NE(run("launch -n 2 --log-dir logs --tee 5 " + train), 0);
  expect("--tee is '5'; expected 0, 1 (output), 2 (errors) or 3 (both)");
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

/// A training that goes on until it is killed.
class Endless : public Ranks {
 protected:
  void start(const std::string& how, const std::string& more = "--save_strategy no",
             int num_processes = 2) {
    const auto train = "exec $convoy " +
                       std::string(how == "launch" ? "launch -n 2 " + launcher_options_ : "") +
                       "train" + kTiny + "--max_steps " + std::to_string(max_steps_) +
                       " --output_dir out " + more +
                       (how == "nproc" ? " --nproc 2"
                        : how == "dp"  ? " --replicas 2"
                                       : "");
    job_ = std::thread([this, command = how == "torchrun" ? torchrun(train) : train] {
      status_ = shell(command);
    });
    wait_for_steps();
    find_processes();
    ASSERT_EQ(processes_.size(), num_processes) << output_;
  }

  void TearDown() override {
    for (const auto& [pid, rank] : processes_) kill(pid, SIGKILL);
    for (const auto& [pid, rank] : others_) kill(pid, SIGKILL);
    if (job_.joinable()) job_.join();
    CommandTest::TearDown();
  }

  /// The processes; pid -> rank, those without one (launcher and cleanup) apart.
  void find_processes() {
    for (const auto& entry : fs::directory_iterator("/proc")) {
      int64_t pid = 0;
      if (!parse_number(entry.path().filename().string(), pid)) continue;
      try {
        if (fs::read_symlink(entry.path() / "cwd") != folder_) continue;
        const auto environment = '\0' + read_file(entry.path() / "environ");
        const auto rank = environment.find(std::string("\0RANK=", 6));
        auto& list = rank == std::string::npos ? others_ : processes_;
        list[static_cast<pid_t>(pid)] =
            rank == std::string::npos ? -1 : std::stoi(environment.substr(rank + 6));
      } catch (const std::exception&) {
        continue;  // it ended meanwhile
      }
    }
  }

  int max_steps_ = 1000000;
  std::string launcher_options_;
  std::thread job_;
  int status_ = 0;
  std::map<pid_t, int> processes_, others_;
};

class Death : public Endless, public ::testing::WithParamInterface<const char*> {};

TEST_P(Death, OfOneRankStopsAllWithinSeconds) {
  const std::string how = GetParam();
  start(how);
  const auto killed = std::chrono::steady_clock::now();
  for (const auto& [pid, rank] : processes_) {
    if (rank == 1) kill(pid, SIGKILL);
  }
  job_.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - killed;
  EXPECT_LT(took.count(), 10);
  EXPECT_NE(status_, 0);
  if (how == "torchrun") {
    expect("convoy: error on rank 0 of 2");
  } else {
    expect("rank 1 failed first");
    expect("was ended by SIGKILL\n  while   `");
    expect("rank 0 ");
    expect("` of step ");
  }
  for (const auto& [pid, rank] : processes_)
    EXPECT_NE(kill(pid, 0), 0) << "rank " << rank << " is left";
  processes_.clear();
  others_.clear();
}

struct StopCase {
  const char* how;
  int signal;
  bool to_launcher;
};

class Stop : public Endless, public ::testing::WithParamInterface<StopCase> {};

TEST_P(Stop, SavesAndLeavesAfterTheSameStep) {
  const auto& [how, signal, to_launcher] = GetParam();
  const bool launched = std::string(how) == "launch";
  start(how, "--save_strategy steps --save_steps 100000000", launched ? 2 : 0);
  ASSERT_FALSE(others_.empty());
  // The launcher is the oldest process here; what is no rank and no launcher is the training
  // itself.
  kill(to_launcher || !launched ? others_.begin()->first : processes_.rbegin()->first, signal);
  job_.join();
  EXPECT_EQ(status_, 128 + signal) << output_;
  std::vector<fs::path> checkpoints;
  for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
    if (entry.path().filename().string().starts_with("checkpoint-")) {
      checkpoints.push_back(entry.path());
    }
  }
  ASSERT_EQ(checkpoints.size(), 1) << output_;
  const auto step = checkpoints[0].filename().string().substr(11);
  expect(
      fmt::format("stopped by SIG{} after step {}; saved out/checkpoint-{}; go on with "
                  "--resume_from_checkpoint latest",
                  sigabbrev_np(signal), step, step));
  EXPECT_EQ(
      json("out/" + checkpoints[0].filename().string() + "/trainer_state.json")["global_step"],
      std::stoi(step));
  EXPECT_FALSE(fs::exists(folder_ / "out/model.safetensors")) << "as if it had come to its end";
  processes_.clear();
  others_.clear();

  const auto steps = std::to_string(std::stoi(step) + 10);
  const std::string common = (launched ? "launch -n 2 train" : std::string("train")) + kTiny +
                             (std::string(how) == "dp" ? "--replicas 2 " : "") + "--max_steps " +
                             steps;
  ASSERT_EQ(run(common + " --output_dir out "
                         "--resume_from_checkpoint latest"),
            0)
      << output_;
  EXPECT_EQ(json("out/trainer_state.json")["global_step"], std::stoi(steps));
}

INSTANTIATE_TEST_SUITE_P(Way, Stop,
                         ::testing::Values(StopCase{"launch", SIGTERM, true},
                                           StopCase{"launch", SIGINT, false},
                                           StopCase{"single", SIGINT, false},
                                           StopCase{"dp", SIGTERM, false},
                                           StopCase{"single", SIGUSR1, false}));

TEST_F(Endless, ARestartGoesOnFromTheLastCheckpointToTheSameBits) {
  max_steps_ = 700;
  launcher_options_ = "--max-restarts 1 ";
  start("launch", "--save_steps 100");
  for (int i = 0; i < 600 && !fs::exists(folder_ / "out/checkpoint-200"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (const auto& [pid, rank] : processes_) {
    if (rank == 1) kill(pid, SIGKILL);
  }
  job_.join();
  EXPECT_EQ(status_, 0) << output_;
  expect("rank 1 failed first");
  expect("starting all ranks again (1 of 1 restarts)");
  expect("start 2: going on from out/checkpoint-");
  processes_.clear();
  others_.clear();
  ASSERT_EQ(run("launch -n 2 train" + kTiny + "--max_steps 700 --output_dir calm"), 0) << output_;
  EXPECT_TRUE(model("calm") == model("out"));
}

TEST_F(Ranks, TheRestGoesOnWhenAHostIsLost) {
  // 75 steps an epoch, so that no checkpoint is at its end: three hosts go on in mid-epoch.
  const auto agent = [](const std::string& conf) {
    return "$convoy launch --nnodes 1:4 --rdzv-endpoint 127.0.0.1:$port -n 1 --rdzv-conf " + conf +
           " train" + kTiny +
           "--per_device_train_batch_size 1 --max_steps 600 --save_steps 47 --output_dir out & ";
  };
  ASSERT_EQ(shell("export CONVOY_TOKEN=$(head -c 24 /dev/urandom | base64); "
                  "port=$((20000 + $$ % 10000)); " +
                  agent("last_call_timeout=3,is_host=true") + "a=$!; " + agent("is_host=false") +
                  agent("is_host=false") + agent("is_host=false") +
                  "b=$!; i=0; until [ -e out/checkpoint-94 -o $i -gt 1500 ]; do sleep 0.02; "
                  "i=$((i + 1)); done; kill -9 $b; wait $a"),
            0)
      << output_;
  expect("strategy       ddp");
  expect("is lost: it closed the connection");
  expect("forming the job anew with 3 of 1 to 4 hosts");
  expect("start 2: going on from out/checkpoint-");
  EXPECT_EQ(json("out/trainer_state.json")["global_step"], 600);
}

TEST_F(Ranks, ThreeTrainAsOneThatAccumulatesAndGoOnAsOne) {
  const auto common = "train" + kTiny + "--max_steps 16 --save_steps 5 ";
  ASSERT_EQ(run(common + "--gradient_accumulation_steps 3 --output_dir one"), 0) << output_;
  ASSERT_EQ(run(common + "--replicas 3 --output_dir dp"), 0) << output_;
  ASSERT_EQ(run("launch -n 3 " + common + "--output_dir ddp"), 0) << output_;
  EXPECT_TRUE(model("dp") == model("one"));
  EXPECT_TRUE(model("ddp") == model("one"));
  ASSERT_EQ(run(common + "--gradient_accumulation_steps 3 --output_dir on "
                         "--resume_from_checkpoint ddp/checkpoint-5"),
            0)
      << output_;
  EXPECT_TRUE(model("on") == model("one"));
}

TEST_F(Ranks, ARestartTakesNoCheckpointOfAnotherJob) {
  const auto train = "train" + kTiny + "--max_steps 4 --save_steps 2 --output_dir out ";
  ASSERT_EQ(run(train), 0) << output_;
  const auto again = "TORCHELASTIC_RESTART_COUNT=1 RANK=0 WORLD_SIZE=1 $convoy " + train;
  ASSERT_EQ(shell("CONVOY_JOB_START=$(date +%s.%N) " + again + "--overwrite_output_dir"), 0)
      << output_;
  EXPECT_EQ(output_.find("going on from"), std::string::npos) << output_;
  ASSERT_EQ(shell(again), 0) << output_;
  expect("start 2: going on from out/checkpoint-4");
  EXPECT_NE(shell(again + "--resume_from_checkpoint false"), 0);
  expect("already holds a run");
}

/// Local addresses, as in /proc/net/tcp, of the sockets on which a process listens.
std::vector<std::string> listening(pid_t pid) {
  std::set<std::string> own;
  const auto folder = fs::path("/proc") / std::to_string(pid);
  for (const auto& entry : fs::directory_iterator(folder / "fd")) {
    std::error_code gone;
    const auto target = fs::read_symlink(entry.path(), gone).string();
    if (target.rfind("socket:[", 0) == 0) own.insert(target.substr(8, target.size() - 9));
  }
  std::vector<std::string> out;
  for (const char* table : {"net/tcp", "net/tcp6", "net/udp", "net/udp6"}) {
    std::istringstream lines(read_file(folder / table));
    std::string line;
    std::getline(lines, line);
    while (std::getline(lines, line)) {
      std::istringstream words(line);
      std::string slot, local, remote, state, skip, inode;
      words >> slot >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) words >> skip;
      words >> inode;
      const bool waits = state == "0A" || state == "07";
      if (waits && own.count(inode)) out.push_back(local);
    }
  }
  return out;
}

TEST_F(Endless, NothingListensBeyondLoopback) {
  start("launch", "--save_strategy no --backend gloo");
  size_t found = 0;
  for (const auto& [pid, rank] : processes_) {
    for (const auto& address : listening(pid)) {
      ++found;
      const bool loopback = address.rfind("0100007F:", 0) == 0 ||
                            address.rfind("00000000000000000000000001000000:", 0) == 0 ||
                            address.rfind("0000000000000000FFFF00000100007F:", 0) == 0;
      EXPECT_TRUE(loopback) << "rank " << rank << " listens on " << address;
    }
  }
  EXPECT_GT(found, 0) << "the check found no socket at all";
}

TEST_F(Endless, NothingListensAtAllOnceTheRanksShareMemory) {
  start("launch");
  for (const auto& [pid, rank] : processes_) {
    EXPECT_TRUE(listening(pid).empty()) << "rank " << rank << ": " << listening(pid).front();
  }
}

INSTANTIATE_TEST_SUITE_P(Started, Death, ::testing::Values("launch", "nproc", "torchrun"));

}  // namespace
}  // namespace convoy
