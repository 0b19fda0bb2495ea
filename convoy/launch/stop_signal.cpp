#include "convoy/launch/stop_signal.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "convoy/base/temporary_file.h"

namespace convoy::launch {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
constexpr int kLeaveNow = 0x1ea7e;

std::atomic<int> noted{0};
std::atomic<int64_t> noted_at{0};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free);

int64_t milliseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

void leave(int signal) {
  remove_temporary_files();
  ::_exit(128 + signal);
}

void note(int signal, siginfo_t* info, void*) {
  if (info->si_code == SI_QUEUE && info->si_value.sival_int == kLeaveNow) leave(signal);
  if (noted.load() == 0) {
    noted_at = milliseconds();
    noted = signal;
  } else if (hurries(signal, std::chrono::milliseconds(milliseconds() - noted_at.load()))) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
}

void handle_stop_signals(const struct sigaction& action) {
  for (int signal : kSignals) {
    struct sigaction before{};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
  }
}

}  // namespace

void leave_on_stop_signals() {
  struct sigaction action{};
  action.sa_handler = leave;
  ::sigemptyset(&action.sa_mask);
  handle_stop_signals(action);
}

const std::atomic<int>& note_stop_signals() {
  struct sigaction action{};
  action.sa_sigaction = note;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  handle_stop_signals(action);
  return noted;
}

void tell_to_leave_now(pid_t pid) {
  ::sigqueue(pid, SIGTERM, {.sival_int = kLeaveNow});
}

}  // namespace convoy::launch
