#include "convoy/launch/stop_signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "convoy/launch/spawn.h"

namespace convoy::launch {
namespace {

void wait_milliseconds(int count) {
  std::this_thread::sleep_for(std::chrono::milliseconds(count));
}

/// A process that notes its signals, tells each number it sees through a pipe, and stays.
struct Noting {
  Noting() {
    pid = ::fork();
    if (pid == 0) {
      ::signal(SIGINT, SIG_DFL);  // a test in the background has it ignored
      const auto& noted = note_stop_signals();
      int last = -1;
      while (true) {
        if (noted.load() != last) {
          last = noted.load();
          [[maybe_unused]] const ssize_t sent = ::write(pipe.write.get(), &last, sizeof last);
        }
        ::usleep(1000);
      }
    }
    EXPECT_EQ(next(), 0);
  }
  ~Noting() {
    if (pid > 0) ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }

  int next() {
    int number = -1;
    EXPECT_EQ(::read(pipe.read.get(), &number, sizeof number), sizeof number);
    return number;
  }

  int end() {
    int status = 0;
    ::waitpid(pid, &status, 0);
    pid = -1;
    return status;
  }

  PipeEnds pipe = make_pipe();
  pid_t pid = -1;
};

TEST(StopSignal, FirstOneIsNotedAndALaterOneKills) {
  Noting process;
  ::kill(process.pid, SIGTERM);
  EXPECT_EQ(process.next(), SIGTERM);
  ::kill(process.pid, SIGINT);  // the same wish, passed on by another
  wait_milliseconds(700);
  ASSERT_EQ(::waitpid(process.pid, nullptr, WNOHANG), 0) << "two at once are one";
  ::kill(process.pid, SIGINT);
  const int status = process.end();
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGINT);
}

TEST(StopSignal, EndsAProcessThatHasNothingToSave) {
  for (const int signal : {SIGINT, SIGTERM}) {
    PipeEnds ready = make_pipe();
    const pid_t pid = ::fork();
    if (pid == 0) {
      leave_on_stop_signals();
      [[maybe_unused]] const ssize_t sent = ::write(ready.write.get(), "", 1);
      while (true) ::pause();
    }
    char byte = 0;
    ASSERT_EQ(::read(ready.read.get(), &byte, 1), 1);
    ::kill(pid, signal);
    int status = 0;
    ::waitpid(pid, &status, 0);
    ASSERT_TRUE(WIFEXITED(status)) << "the first process of a container is deaf to others";
    EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
  }
}

TEST(StopSignal, NobodyWaitsWhenThePeersAreGone) {
  Noting process;
  tell_to_leave_now(process.pid);
  const int status = process.end();
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);

  const pid_t plain = ::fork();
  if (plain == 0) {
    while (true) ::pause();
  }
  int plain_status = 0;
  tell_to_leave_now(plain);
  ::waitpid(plain, &plain_status, 0);
  EXPECT_TRUE(WIFSIGNALED(plain_status) && WTERMSIG(plain_status) == SIGTERM);
}

}  // namespace
}  // namespace convoy::launch
