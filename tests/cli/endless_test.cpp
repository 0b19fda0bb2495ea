#include <fmt/format.h>
#include <signal.h>

#include <chrono>
#include <future>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "convoy/base/text.h"
#include "tests/cli/ranks_testing.h"

// Trainings that would go on for ever: when a rank dies all stop, signals save, and nobody listens.
namespace convoy {
namespace {

/// A training that goes on until it is killed.
class Endless : public Ranks {
 protected:
  void start(const std::string& how, const std::string& more = "--save_strategy no",
             int num_processes = 2) {
    const auto train =
        "exec $convoy " + std::string(how == "launch" ? "launch -n 2 " + launcher_options_ : "") +
        "train" + kTiny + "--max_steps " + std::to_string(max_steps_) + " --output_dir out " +
        more + (how == "nproc" ? " --nproc 2" : in_threads(how));
    job_ = std::async(
        std::launch::async,
        [this, command = how == "torchrun" ? torchrun(train) : train] { return shell(command); });
    wait_for_steps();
    find_processes();
    ASSERT_EQ(processes_.size(), num_processes) << output_;
  }

  void TearDown() override {
    // Also what came after a test had looked for it in vain.
    while (job_.valid() &&
           job_.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
      find_processes();
      for (const auto& [pid, rank] : processes_) kill(pid, SIGKILL);
      for (const auto& [pid, rank] : others_) kill(pid, SIGKILL);
    }
    CommandTest::TearDown();
  }

  /// Options of a process whose ranks are threads.
  static std::string in_threads(const std::string& how) {
    return how == "dp" ? " --replicas 2 " : how == "stages" ? " --pipeline_parallel_size 2 " : "";
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
  std::future<int> job_;  ///< its exit code
  std::map<pid_t, int> processes_, others_;
};

class Death : public Endless, public ::testing::WithParamInterface<const char*> {};

TEST_P(Death, StopsAllRanksWithinSeconds) {
  const std::string how = GetParam();
  ASSERT_NO_FATAL_FAILURE(start(how));
  const auto killed = std::chrono::steady_clock::now();
  for (const auto& [pid, rank] : processes_) {
    if (rank == 1) kill(pid, SIGKILL);
  }
  const int status = job_.get();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - killed;
  EXPECT_LT(took.count(), 10);
  EXPECT_NE(status, 0);
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
  ASSERT_NO_FATAL_FAILURE(
      start(how, "--save_strategy steps --save_steps 100000000", launched ? 2 : 0));
  ASSERT_FALSE(others_.empty());
  // The launcher is the oldest process here; what is no rank and no launcher is the training
  // itself.
  kill(to_launcher || !launched ? others_.begin()->first : processes_.rbegin()->first, signal);
  const int status = job_.get();
  EXPECT_EQ(status, 128 + signal) << output_;
  std::vector<fs::path> checkpoints;
  for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
    if (entry.path().filename().string().starts_with("checkpoint-")) {
      checkpoints.push_back(entry.path());
    }
  }
  ASSERT_EQ(checkpoints.size(), 1) << output_;
  const auto step = checkpoints[0].filename().string().substr(11);
  expect(
      fmt::format("stopped by SIG{} after step {}; saved out/checkpoint-{}; resume with "
                  "--resume_from_checkpoint latest",
                  sigabbrev_np(signal), step, step));
  EXPECT_EQ(
      json("out/" + checkpoints[0].filename().string() + "/trainer_state.json")["global_step"],
      std::stoi(step));
  EXPECT_FALSE(fs::exists(folder_ / "out/model.safetensors")) << "as if it had come to its end";

  const auto steps = std::to_string(std::stoi(step) + 10);
  const std::string common = (launched ? "launch -n 2 train" : std::string("train")) + kTiny +
                             in_threads(how) + "--max_steps " + steps;
  ASSERT_EQ(run(common + " --output_dir out "
                         "--resume_from_checkpoint latest"),
            0)
      << output_;
  EXPECT_EQ(json("out/trainer_state.json")["global_step"], std::stoi(steps));
}

INSTANTIATE_TEST_SUITE_P(
    Way, Stop,
    ::testing::Values(StopCase{"launch", SIGTERM, true}, StopCase{"launch", SIGINT, false},
                      StopCase{"single", SIGINT, false}, StopCase{"dp", SIGTERM, false},
                      StopCase{"stages", SIGTERM, false}, StopCase{"single", SIGUSR1, false},
                      StopCase{"single", SIGHUP, false}, StopCase{"launch", SIGHUP, true}));

TEST_F(Endless, ASignalWaitsForTheCheckpointThatIsBeingWritten) {
  ASSERT_NO_FATAL_FAILURE(start("single", "--d_model 256 --save_strategy steps --save_steps 4", 0));
  ASSERT_FALSE(others_.empty());
  std::string hidden;
  for (int i = 0; i < 5000 && hidden.empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
      const auto name = entry.path().filename().string();
      if (name.starts_with(".checkpoint-")) hidden = name;
    }
  }
  kill(others_.begin()->first, SIGINT);
  EXPECT_EQ(job_.get(), 128 + SIGINT) << output_;
  expect("stopped by SIGINT after step ");
  ASSERT_NE(hidden, "") << "no checkpoint was under way";
  const auto begun = "checkpoint-" + std::to_string(std::stoi(hidden.substr(12)));
  for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
    const auto name = entry.path().filename().string();
    EXPECT_FALSE(name.starts_with(".checkpoint-")) << name << " is left";
  }
  EXPECT_EQ(run("checkpoint verify out/" + begun), 0) << output_;
}

TEST_F(Endless, ARestartGoesOnFromTheLastCheckpointToTheSameBits) {
  max_steps_ = 700;
  launcher_options_ = "--max-restarts 1 ";
  ASSERT_NO_FATAL_FAILURE(start("launch", "--save_steps 100"));
  for (int i = 0; i < 600 && !fs::exists(folder_ / "out/checkpoint-200"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (const auto& [pid, rank] : processes_) {
    if (rank == 1) kill(pid, SIGKILL);
  }
  const int status = job_.get();
  EXPECT_EQ(status, 0) << output_;
  expect("rank 1 failed first");
  expect("starting all ranks again (1 of 1 restarts since it reached step");
  expect("start 2: going on from out/checkpoint-");
  ASSERT_EQ(run("launch -n 2 train" + kTiny + "--max_steps 700 --output_dir calm"), 0) << output_;
  EXPECT_TRUE(model("calm") == model("out"));
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
  ASSERT_NO_FATAL_FAILURE(start("launch", "--save_strategy no --backend gloo"));
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
  ASSERT_NO_FATAL_FAILURE(start("launch"));
  for (const auto& [pid, rank] : processes_) {
    EXPECT_TRUE(listening(pid).empty()) << "rank " << rank << ": " << listening(pid).front();
  }
}

INSTANTIATE_TEST_SUITE_P(Started, Death, ::testing::Values("launch", "nproc", "torchrun"));

}  // namespace
}  // namespace convoy
