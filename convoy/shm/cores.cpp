#include "convoy/shm/cores.h"

#include <sched.h>

namespace convoy::shm {

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
