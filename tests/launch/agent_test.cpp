#include "convoy/launch/supervise/agent.h"

#include <gtest/gtest.h>

#include <csignal>

#include "tests/launch/agent_testing.h"

namespace convoy::launch {
namespace {

TEST_F(Agent, GivesRanksTheirPlace) {
  EXPECT_EQ(run("echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR "
                "$CONVOY_LAUNCHER $OMP_NUM_THREADS $GLOO_SOCKET_IFNAME > $D/$RANK; "
                "echo $MASTER_PORT > $D/port-$RANK; echo $CONVOY_ERROR_FILE > $D/errors-$RANK"),
            0);
  for (int rank = 0; rank < 3; ++rank) {
    const char* threads = std::getenv("OMP_NUM_THREADS");
    EXPECT_EQ(
        content(fmt::format("{}", rank)),
        fmt::format("{0} {0} 3 3 0 127.0.0.1 convoy {1} lo\n", rank, threads ? threads : "1"));
  }
  EXPECT_GT(std::stoi(content("port-0")), 1023);
  EXPECT_EQ(content("port-0"), content("port-2"));
  EXPECT_NE(content("errors-0"), content("errors-1"));
  EXPECT_FALSE(fs::exists(fs::path(trim(content("errors-0"))).parent_path()));
  EXPECT_EQ(said_, "");
}

TEST_F(Agent, LetsThreadsOfRanksSpinForMicroseconds) {
  const std::string show = "echo \"$GOMP_SPINCOUNT\" > $D/$RANK";
  unsetenv("OMP_WAIT_POLICY");
  unsetenv("GOMP_SPINCOUNT");
  EXPECT_EQ(run(show), 0);
  EXPECT_EQ(content("1"), "1000\n");
  setenv("OMP_WAIT_POLICY", "passive", 1);
  EXPECT_EQ(run(show), 0);
  EXPECT_EQ(content("1"), "\n");
  unsetenv("OMP_WAIT_POLICY");
  setenv("GOMP_SPINCOUNT", "77", 1);
  EXPECT_EQ(run(show), 0);
  EXPECT_EQ(content("1"), "77\n");
  unsetenv("GOMP_SPINCOUNT");
}

TEST_F(Agent, StopsAllWhenOneFailsAndNamesIt) {
  EXPECT_EQ(run("if [ $RANK = 1 ]; then exit 3; fi; sleep 60"), 3);
  EXPECT_LT(seconds_, 3);
  expect_said("rank 1 failed first, so all ranks were stopped");
  expect_said("rank 1 of 3, host ");
  expect_said("ended with exit code 3");
  expect_said("ranks 0, 2 had to be stopped");
  expect_said("--log-dir");
}

TEST_F(Agent, NamesTheSignalThatEndedARank) {
  EXPECT_EQ(run("if [ $RANK = 2 ]; then kill -9 $$; fi; sleep 60"), 137);
  EXPECT_LT(seconds_, 3);
  expect_said("rank 2 failed first");
  expect_said("was ended by SIGKILL");
  expect_said("ran out of memory");
  expect_said("ranks 0-1 had to be stopped");
}

TEST_F(Agent, KillsARankThatDoesNotListen) {
  EXPECT_EQ(run("if [ $RANK = 0 ]; then sleep 0.3; exit 4; fi; trap '' TERM; sleep 60; sleep 60"),
            4);
  EXPECT_GT(seconds_, 0.7);
  EXPECT_LT(seconds_, 4);
  expect_said("ranks 1-2 did not stop when asked and had to be killed");
}

// Rank 0 notices the loss of its peer and ends before the peer has told why it failed.
TEST_F(Agent, LosingAPeerIsNotTheCause) {
  EXPECT_EQ(run(R"(tell() { printf '{"rank": %s, "host": "h7", "pid": 1, "time": %s, "kind": "%s",
                    "error": "%s", "operation": "%s"}' \
                    $RANK $(date +%s.%N) "$1" "$2" "$3" > $CONVOY_ERROR_FILE; }
                case $RANK in
                0) tell CommunicationError '[comm] rank 1 is gone' 'reduce block 7'; exit 1;;
                1) sleep 0.4; tell NumericError '[train] the loss is nan at step 12'; exit 5;;
                2) sleep 60;;
                esac)"),
            5);
  EXPECT_LT(seconds_, 4);
  expect_said("rank 1 failed first");
  expect_said("NumericError: [train] the loss is nan at step 12");
  expect_said("host h7");
  expect_said("rank 0 lost contact with the others in `reduce block 7`");
  ASSERT_TRUE(failure_);
  const Json json = failure_->to_json();
  EXPECT_EQ(json["first_rank"], 1);
  EXPECT_EQ(json["ranks"][0]["operation"], "reduce block 7");
  EXPECT_EQ(json["ranks"][2]["end"], "stopped");
}

TEST_F(Agent, ReportsTheFirstLossWhereNoRankGaveAReason) {
  EXPECT_EQ(
      run(R"(if [ $RANK = 0 ]; then echo '{"kind": "CommunicationError", "error": "[comm] late",
                   "time": 1}' > $CONVOY_ERROR_FILE; exit 1; fi; sleep 60)"),
      1);
  EXPECT_LT(seconds_, 4);
  expect_said("rank 0 failed first");
  expect_said("no rank gave a reason of its own");
  EXPECT_EQ(run(R"(if [ $RANK = 0 ]; then echo '{"kind": "CommunicationError", "time": 1,
                   "error": "[comm] late; try earlier"}' > $CONVOY_ERROR_FILE; exit 1; fi
                   sleep 60)"),
            1);
  expect_said("[comm] late; try earlier");
  EXPECT_EQ(said_.rfind("network"), said_.find("network")) << "it has an advice: " << said_;
}

// Rank 1 is suspended; the others wait for it until they lose patience and name it.
TEST_F(Agent, BlamesARankThatTheOthersWaitedFor) {
  const auto tell = R"(tell() { printf '{"kind": "CommunicationError", "time": %s, "missing": [%s],
      "error": "[comm] nobody came", "operation": "reduce loss", "step": 4}' \
      $(date +%s.%N) "$1" > $CONVOY_ERROR_FILE; exit 3; }
      )";
  const std::string others = "sleep 0.3; case $RANK in 0) tell 1,2;; 2) tell 1;; esac";
  EXPECT_EQ(run(tell + ("[ $RANK = 1 ] && kill -STOP $$; " + others)), 1);
  expect_said("rank 1 failed first");
  expect_said("was suspended by a signal (SIGSTOP or the like): the others waited for it in vain");
  expect_said("ranks 0, 2 lost contact with the others in `reduce loss` of step 4");
  expect_said("kill -CONT");
  ASSERT_TRUE(failure_);
  EXPECT_EQ(failure_->to_json()["ranks"][1]["suspended"], true);
  EXPECT_EQ(failure_->to_json()["ranks"][0]["missing"], (std::vector<int>{1, 2}));

  said_.clear();
  EXPECT_EQ(run(tell + ("[ $RANK = 1 ] && exec sleep 60; " + others)), 1);
  expect_said("rank 1 failed first");
  expect_said("was stuck: the others waited for it in vain");
}

TEST_F(Agent, TellsWhatEachRankWasDoing) {
  // A page of activity as a program that convoy did not make could write it: step and text.
  const std::string page = R"(page() { { printf '\002\0\0\0\0\0\0\0'; printf "\\00$1\0\0\0\0\0\0\0";
      printf '\0\0\0\0\0\0\0\0'; printf '%s' "$2"; head -c 256 /dev/zero; } > $CONVOY_STATUS_FILE; }
      )";
  EXPECT_EQ(run(page + R"(case $RANK in
      0) page 5 'forward block 3'; touch $D/a; sleep 60;;
      1) page 6 'reduce bucket 7'; touch $D/b; sleep 60;;
      2) page 6 'optimizer step'; until [ -e $D/a -a -e $D/b ]; do sleep 0.05; done; kill -9 $$;;
      esac)"),
            137);
  expect_said("was ended by SIGKILL\n  while   `optimizer step` of step 6\n");
  expect_said("rank 0 was in `forward block 3` of step 5 and had to be stopped");
  expect_said("rank 1 waited in `reduce bucket 7` of step 6 and had to be stopped");
  EXPECT_EQ(failure_->to_json()["ranks"][2]["operation"], "optimizer step");
  EXPECT_EQ(failure_->to_json()["ranks"][1]["step"], 6);
}

TEST_F(Agent, KeepsAndPassesOnOutput) {
  std::vector<std::string> lines;
  options_.log_dir = folder_ / "logs";
  options_.num_ranks = 2;
  options_.tee = [&](int rank, int local_rank, bool is_error, std::string_view line) {
    EXPECT_EQ(rank, local_rank);
    lines.push_back(fmt::format("{} {} {}", rank, is_error, line));
  };
  EXPECT_EQ(run("echo one; printf 'a\\rb\\rtwo\\n'; printf unfinished; echo bad $RANK >&2; "
                "[ $RANK = 0 ] && { touch $D/done; exit 0; }; "
                "until [ -e $D/done ]; do sleep 0.02; done; sleep 0.5; exit 9"),
            9);
  for (const char* expected : {"0 false one", "1 false one", "0 false two", "1 false unfinished",
                               "0 true bad 0", "1 true bad 1"}) {
    EXPECT_EQ(std::count(lines.begin(), lines.end(), expected), 1) << expected;
  }
  EXPECT_EQ(content("logs/rank-0.out"), "one\na\rb\rtwo\nunfinished");
  EXPECT_EQ(content("logs/rank-1.err"), "bad 1\n");
  expect_said("rank-1.err ends with\n          | bad 1");
  expect_said("rank 0 had finished");
  const Json json = parse_json(content("logs/failure.json"), "failure.json");
  EXPECT_EQ(json["exit_code"], 9);
  EXPECT_EQ(json["ranks"][1]["log_tail"][0], "bad 1");
}

TEST_F(Agent, RestartsAllRanksAsOftenAsTold) {
  options_.max_restarts = 2;
  EXPECT_EQ(run("[ $TORCHELASTIC_RESTART_COUNT = 1 ] && exit 0; sleep 0.1; exit 6"), 0);
  expect_said("starting all ranks again (1 of 2 restarts)");
  EXPECT_EQ(said_.find("2 of 2"), std::string::npos);
}

TEST_F(Agent, AWrongOptionIsNotTriedAgain) {
  options_.max_restarts = 2;
  EXPECT_EQ(run(R"(echo '{"kind": "UsageError", "error": "no such option"}' > $CONVOY_ERROR_FILE
             exit 2)"),
            2);
  EXPECT_EQ(said_.find("again"), std::string::npos);
}

TEST_F(Agent, LeavesNothingOfASuccessfulRankBehind) {
  options_.num_ranks = 1;
  EXPECT_EQ(run("sleep 60 & echo $! > $D/helper"), 0);
  EXPECT_TRUE(disappears(std::stoi(content("helper"))));
}

TEST_F(Agent, RefusesWhatCannotWork) {
  const auto message = [&] {
    try {
      run_ranks(options_);
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(message().find("no command to start"), std::string::npos) << message();
  options_.command = {"no-such-program-here"};
  EXPECT_NE(message().find("'no-such-program-here': no such program in PATH"), std::string::npos);
  options_.command = {"/etc/passwd"};
  EXPECT_NE(message().find("cannot start '/etc/passwd': Permission denied"), std::string::npos);
  options_.num_ranks = 0;
  EXPECT_NE(message().find("cannot start 0 ranks"), std::string::npos) << message();
}

TEST_F(Agent, NoOrphanOutlivesAKilledLauncher) {
  options_.num_ranks = 2;
  const std::string script = fmt::format(
      "cd {}; trap '' TERM; (trap '' TERM; sleep 60; sleep 60) & echo $! > helper-$RANK; "
      "echo $$ > rank-$RANK; sleep 60; sleep 60",
      folder_.string());
  const pid_t launcher = agent_in_a_child(options_, script);
  std::vector<pid_t> pids;
  for (const char* name : {"rank-0", "rank-1", "helper-0", "helper-1"}) {
    pids.push_back(wait_for_pid(folder_ / name));
    ASSERT_GT(pids.back(), 0) << name;
    ASSERT_EQ(::kill(pids.back(), 0), 0) << name;
  }
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  for (pid_t pid : pids) EXPECT_TRUE(disappears(pid)) << pid;
}

TEST_F(Agent, PassesSignalsOnAndTheSecondKills) {
  options_.num_ranks = 2;
  const auto script = [&](const char* on_signal) {
    return fmt::format("cd {}; trap '{}' INT; echo $$ > rank-$RANK; while :; do sleep 0.05; done",
                       folder_.string(), on_signal);
  };
  int status = 0;
  pid_t launcher = agent_in_a_child(options_, script("touch told-$RANK; exit 0"));
  ASSERT_GT(wait_for_pid(folder_ / "rank-0"), 0);
  ASSERT_GT(wait_for_pid(folder_ / "rank-1"), 0);
  ::kill(launcher, SIGINT);
  ::waitpid(launcher, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_TRUE(fs::exists(folder_ / "told-0"));
  EXPECT_TRUE(fs::exists(folder_ / "told-1"));

  for (const char* name : {"rank-0", "rank-1"}) fs::remove(folder_ / name);
  launcher = agent_in_a_child(options_, script("touch deaf-$RANK"));
  ASSERT_GT(wait_for_pid(folder_ / "rank-0"), 0);
  const pid_t rank = wait_for_pid(folder_ / "rank-1");
  ::kill(launcher, SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ::kill(launcher, SIGTERM);  // the same wish, passed on by another
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  EXPECT_EQ(::waitpid(launcher, &status, WNOHANG), 0);
  ::kill(launcher, SIGHUP);  // from a terminal, which has no patience to lose
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(::waitpid(launcher, &status, WNOHANG), 0);
  ::kill(launcher, SIGINT);
  ::waitpid(launcher, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_TRUE(fs::exists(folder_ / "deaf-1"));
  EXPECT_TRUE(disappears(rank));
}

}  // namespace
}  // namespace convoy::launch
