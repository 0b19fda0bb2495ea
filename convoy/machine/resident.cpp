#include "convoy/machine/resident.h"

#include <unistd.h>

#include <fstream>
#include <string>

namespace convoy::machine {

int64_t resident_bytes() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

int64_t peak_resident_bytes() {
  // VmHWM of this program; getrusage() also counts the memory that the launcher held when it
  // forked.
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace convoy::machine
