#include "convoy/launch/supervise/reaper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace convoy::launch {
namespace {

constexpr int kLauncherEnded = SIGUSR2;
constexpr int kPatienceMilliseconds = 2000;  // for what the kernel does not let go

void kill_children() {
  const int file = ::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
  std::array<char, 4096> text;
  pid_t child = 0;
  for (ssize_t got; (got = ::read(file, text.data(), text.size())) > 0;) {
    for (const char* c = text.data(); c != text.data() + got; ++c) {
      if (*c >= '0' && *c <= '9') {
        child = child * 10 + (*c - '0');
      } else if (child > 0) {
        ::kill(child, SIGKILL);
        child = 0;
      }
    }
  }
  ::close(file);
}

/// Kills the process group of the program, and all other groups among its descendants: this process
/// inherits the children of killed ones.
void end_family(pid_t program) {
  ::kill(-program, SIGKILL);
  for (int i = 0; i < kPatienceMilliseconds; ++i) {
    kill_children();
    pid_t ended = 0;
    do {
      ended = ::waitpid(-1, nullptr, WNOHANG);
    } while (ended > 0);
    if (ended < 0) return;
    const timespec nap{0, 1000000};
    ::nanosleep(&nap, nullptr);
  }
}

[[noreturn]] void end_like(int status) {
  if (WIFSIGNALED(status)) {
    const rlimit no_core{};  // the program has left one
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::signal(WTERMSIG(status), SIG_DFL);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::kill(::getpid(), WTERMSIG(status));
  }
  ::_exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

[[noreturn]] void guard(pid_t program, pid_t launcher) {
  ::prctl(PR_SET_NAME, "convoy-reaper");
  ::closefrom(0);  // holds no pipe or terminal of the launcher open
  sigset_t watched;
  ::sigemptyset(&watched);
  ::sigaddset(&watched, SIGCHLD);
  ::sigaddset(&watched, kLauncherEnded);
  int status = 0;
  for (bool ended = false; !ended && ::getppid() == launcher;) {
    ::sigwaitinfo(&watched, nullptr);
    int one = 0;
    for (pid_t child; (child = ::waitpid(-1, &one, WNOHANG)) > 0;) {
      if (child != program) continue;
      ended = true;
      status = one;
    }
  }
  end_family(program);
  end_like(status);
}

}  // namespace

bool part_from_reaper(pid_t launcher) {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::setpgid(0, 0);  // out of reach of Ctrl-C
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, kLauncherEnded);
  const pid_t reaper = ::getpid();
  const pid_t program = ::fork();
  if (program > 0) guard(program, launcher);
  if (program < 0) return false;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != reaper) ::_exit(127);  // it ended before the line above
  return true;
}

}  // namespace convoy::launch
