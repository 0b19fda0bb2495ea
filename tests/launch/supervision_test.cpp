#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <future>

#include "tests/launch/agent_testing.h"

// What ranks, terminals and systems do that must not keep the launcher from its work.
namespace convoy::launch {
namespace {

using Supervision = Agent;

TEST_F(Supervision, AnEndlessPrinterHidesNeitherAFailureNorASignal) {
  options_.num_ranks = 2;
  options_.log_dir = folder_ / "logs";
  options_.tee = [](int, int, bool, std::string_view) { ::usleep(200); };  // slower than a rank
  const std::string print = R"sh([ $RANK = 0 ] && exec yes "$(printf '%01000d' 0)"; )sh";
  const std::string printed =
      fmt::format("until [ -s {}/logs/rank-0.out ]; do sleep 0.02; done; ", folder_.string());
  EXPECT_EQ(end_of(agent_in_a_child(options_, print + printed + "exit 3")), 3);
  fs::remove_all(folder_ / "logs");
  const pid_t launcher = agent_in_a_child(
      options_,
      fmt::format("{}{} echo $$ > {}/ready; exec sleep 60", print, printed, folder_.string()));
  ASSERT_GT(wait_for_pid(folder_ / "ready"), 0);
  ::kill(launcher, SIGTERM);
  EXPECT_EQ(end_of(launcher), 143);
}

TEST_F(Supervision, GoesOnWhileTheTerminalIsBlocked) {
  options_.num_ranks = 2;
  options_.log_dir = folder_ / "logs";
  std::promise<void> goes_on;
  int shown = 0;
  const auto end = goes_on.get_future();
  options_.tee = [&](int, int, bool, std::string_view) {
    if (++shown > 1) return;
    EXPECT_EQ(end.wait_for(std::chrono::seconds(8)), std::future_status::ready);
  };
  options_.on_failure = [&](const FailureReport&) { goes_on.set_value(); };
  EXPECT_EQ(run("echo first; [ $RANK = 0 ] && exec yes; "
                "until [ -s $D/logs/rank-0.out ]; do sleep 0.02; done; sleep 0.3; exit 3"),
            3);
  EXPECT_GT(shown, 1) << "what came before is shown in the end";
  expect_said("rank 1 failed first");
}

/// From now on this process finds no such system calls, as with an older kernel (ENOSYS) or in a
/// container that forbids what it does not know (EPERM).
void forbid_newer_calls(int reason) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(reason)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{std::size(program), program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    ::_exit(99);
  }
}

TEST_F(Supervision, NeedsNoNewSystemCalls) {
  for (const int reason : {ENOSYS, EPERM}) {
    const auto old = [reason] { forbid_newer_calls(reason); };
    EXPECT_EQ(end_of(agent_in_a_child(options_, "exit 0", old)), 0) << reason;
    EXPECT_EQ(end_of(agent_in_a_child(options_, "[ $RANK = 1 ] && exit 3; sleep 60", old)), 3);
  }
}

TEST_F(Supervision, SeesAFailureAlthoughItsParentIgnoredThatChildrenEnd) {
  const auto ignore = [] { ::signal(SIGCHLD, SIG_IGN); };
  EXPECT_EQ(end_of(agent_in_a_child(options_, "[ $RANK = 1 ] && exit 3; sleep 60", ignore)), 3);
}

// A process with a session and an environment of its own, whose parent is gone.
const std::string kDaemon =
    R"((setsid env -i /bin/sh -c "echo \$\$ > $D/daemon-$RANK
       trap '' TERM HUP; sleep 60; sleep 60" &)
       until [ -s $D/daemon-$RANK ]; do sleep 0.02; done
       )";

TEST_F(Supervision, ADaemonEndsWithItsRank) {
  EXPECT_EQ(run(kDaemon + "[ $RANK = 0 ] && exit 0; sleep 0.2; [ $RANK = 1 ] && exit 3; sleep 60"),
            3);
  for (const char* name : {"daemon-0", "daemon-1", "daemon-2"}) {
    EXPECT_TRUE(disappears(std::stoi(content(name)))) << name;
  }
}

TEST_F(Supervision, ADaemonDoesNotOutliveAKilledLauncher) {
  const pid_t launcher = agent_in_a_child(
      options_, "D=" + folder_.string() + "\n" + kDaemon + "touch $D/ready-$RANK; sleep 60");
  std::vector<pid_t> daemons;
  for (const char* name : {"daemon-0", "daemon-1", "daemon-2"}) {
    daemons.push_back(wait_for_pid(folder_ / name));
    ASSERT_GT(daemons.back(), 0) << name;
  }
  ::kill(launcher, SIGKILL);
  EXPECT_EQ(end_of(launcher), 137);
  for (const pid_t daemon : daemons) EXPECT_TRUE(disappears(daemon)) << daemon;
}

// Rank 0 has told its reason first but was about to leave when rank 1 had ended already.
TEST_F(Supervision, FirstReasonDecidesTheExitCode) {
  const std::string tell =
      R"(tell() { printf '{"kind": "UsageError", "error": "[train] no such file", "time": %s%s}' \
         $(date +%s.%N) "$1" > $CONVOY_ERROR_FILE; }
         )";
  for (const char* code : {", \"exit_code\": 2", ""}) {
    fs::remove(folder_ / "told");
    EXPECT_EQ(run(tell + "if [ $RANK = 0 ]; then tell '" + code +
                  "'; touch $D/told; sleep 60; exit 2; fi; "
                  "until [ -e $D/told ]; do sleep 0.02; done; tell; exit 7"),
              *code == '\0' ? 1 : 2)
        << "Python ends with 1";
    ASSERT_TRUE(failure_);
    EXPECT_EQ(failure_->culprit().rank, 0);
    EXPECT_EQ(failure_->culprit().end, RankEnd::kFailed);
  }
}

TEST_F(Supervision, FirstToEndDecidesTheExitCode) {
  options_.num_ranks = 4;
  const pid_t launcher = agent_in_a_child(
      options_, fmt::format("cd {}; echo $$ > rank-$RANK; until [ -e end-$RANK ]; do sleep 0.02; "
                            "done; exit 2$RANK",
                            folder_.string()));
  std::vector<pid_t> ranks;
  for (const char* name : {"rank-0", "rank-1", "rank-2", "rank-3"}) {
    ranks.push_back(wait_for_pid(folder_ / name));
    ASSERT_GT(ranks.back(), 0) << name;
  }
  ::kill(launcher, SIGSTOP);  // it sees them all at once
  for (const int rank : {2, 0, 3, 1}) {
    write_file(folder_ / fmt::format("end-{}", rank), "");
    EXPECT_TRUE(disappears(ranks[static_cast<size_t>(rank)])) << rank;
  }
  ::kill(launcher, SIGCONT);
  EXPECT_EQ(end_of(launcher), 22);
}

}  // namespace
}  // namespace convoy::launch
