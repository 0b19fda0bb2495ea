#pragma once

#include <sys/types.h>

#include <atomic>

// How a rank is asked to save and leave, and how its launcher tells it that there is nothing left
// to wait for.
namespace convoy::launch {

/// From now on SIGINT, SIGTERM, SIGHUP and SIGUSR1 end the process at once with 128 + the signal,
/// whatever it waits for, and also where it is the first of a container: for the time in which
/// there is nothing to save. Its AtomicFiles leave nothing. Signals that were ignored stay ignored.
void leave_on_stop_signals();

/// From now on the first SIGINT, SIGTERM, SIGHUP (a terminal that was closed) or SIGUSR1 (SLURM's
/// notice before it requeues a job) only leaves its number here, for a loop that looks when it can
/// stop; it was 0 before. The next one, unless it comes within half a second (a scheduler and a
/// launcher may both pass on the same), ends the process as if nobody had asked; but not SIGHUP,
/// which a terminal and its shell both send. Signals that were ignored stay ignored.
const std::atomic<int>& note_stop_signals();

/// Sends SIGTERM to a rank whose peers failed: a process that notes its stop signals ends at once,
/// for others it is a plain SIGTERM.
void tell_to_leave_now(pid_t pid);

}  // namespace convoy::launch
