#pragma once

namespace convoy::shm {

/// Whether each of so many threads can have a core of this host for itself, within the CPU time
/// that a container or a batch system allows.
bool have_cores(int num_threads);
/// Cores of ranks on a host of so many cores, of whose time `quota` may be used; 0: all.
bool have_cores(int num_threads, int num_cores, double quota);

/// Returns the core that this thread runs on now.
int current_core();

/// Moves this thread to another core of its process, and leaves it free to move on.
///
/// Two ranks that wait for each other in turn never both want to run, so to the scheduler one core
/// looks enough for them: having met on one they stay there, at an eighth of the speed.
void leave_core(int core);

/// Keeps this thread on one core.
void stay_on_core(int core);

}  // namespace convoy::shm
