#include "convoy/shm/cores.h"

#include <sched.h>

#include <thread>

namespace convoy::shm {

bool ranks_have_cores(int num_ranks) {
  return num_ranks <= static_cast<int>(std::thread::hardware_concurrency());
}

int current_core() {
  return ::sched_getcpu();
}

void leave_core(int core) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t others = allowed;
  CPU_CLR(core, &others);
  if (CPU_COUNT(&others) == 0 || ::sched_setaffinity(0, sizeof others, &others) != 0) return;
  ::sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace convoy::shm
