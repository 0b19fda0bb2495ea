#include "convoy/shm/cores.h"

#include <sched.h>
#include <unistd.h>

#include <thread>

#include "convoy/machine/cgroup.h"

namespace convoy::shm {

bool have_cores(int num_threads, int num_cores, double quota) {
  return num_threads <= num_cores && (quota == 0 || num_threads <= quota);
}

bool have_cores(int num_threads) {
  static const double quota = machine::read_cgroup().cpus;
  return have_cores(num_threads, static_cast<int>(std::thread::hardware_concurrency()), quota);
}

int current_core() {
  return ::sched_getcpu();
}

void leave_core(int core) {
  // Takes the cores of the process, since this thread may have been bound to one.
  cpu_set_t allowed;
  if (::sched_getaffinity(::getpid(), sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(core, &others);
  if (CPU_COUNT(&others) == 0 || ::sched_setaffinity(0, sizeof others, &others) != 0) return;
  ::sched_setaffinity(0, sizeof allowed, &allowed);
}

void stay_on_core(int core) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(core, &only);
  ::sched_setaffinity(0, sizeof only, &only);
}

}  // namespace convoy::shm
