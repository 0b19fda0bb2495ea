#pragma once

#include <signal.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>

// Signals that ask a rank to save and leave, and by which its launcher tells it that there is
// nothing left to wait for.
namespace convoy::launch {

/// Whether a signal that comes so long after a first one is of somebody who has lost patience. What
/// comes twice at once is one wish that a scheduler and a launcher both passed on; and SIGHUP is
/// sent by a terminal that was closed and by its shell. A signal's handler may call it.
inline bool hurries(int signal, std::chrono::steady_clock::duration after_first) {
  return signal != SIGHUP && after_first > std::chrono::milliseconds(500);
}

/// Makes SIGINT, SIGTERM, SIGHUP and SIGUSR1 end the process at once with exit code 128 + the
/// signal, whatever it waits for, and also where it is the first of a container: for the time in
/// which there is nothing to save. Its AtomicFiles leave nothing. Signals that were ignored stay
/// ignored.
void leave_on_stop_signals();

/// Returns a flag in which the first SIGINT, SIGTERM, SIGHUP (a terminal that was closed) or
/// SIGUSR1 (SLURM's notice before it requeues a job) from now on leaves its number; 0 before. A
/// loop reads it when it can stop. The next signal that hurries() ends the process as if nobody had
/// asked. Signals that were ignored stay ignored.
const std::atomic<int>& note_stop_signals();

/// Sends SIGTERM to a rank whose peers failed: a process that notes its stop signals ends at once,
/// for others it is a plain SIGTERM.
void tell_to_leave_now(pid_t pid);

}  // namespace convoy::launch
