#include "convoy/train/callback.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace convoy::train {

Json LogRecord::to_json() const {
  return {{"step", step},
          {"epoch", epoch},
          {"loss", loss},
          {"grad_norm", grad_norm},
          {"learning_rate", learning_rate},
          {"samples_per_second", samples_per_second},
          {"data_wait_percent", data_wait_percent},
          {"comm_wait_percent", comm_wait_percent},
          {"memory_bytes", memory_bytes}};
}

int64_t resident_bytes() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

int64_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace convoy::train
