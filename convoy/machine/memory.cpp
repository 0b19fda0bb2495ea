#include "convoy/machine/memory.h"

#include "convoy/base/text.h"
#include "convoy/machine/machine.h"

namespace convoy::machine {

MemoryLimit memory_limit(int64_t machine_bytes, const CgroupLimits& cgroup, const Limits& limits) {
  MemoryLimit tightest;
  const auto consider = [&](int64_t bytes, const char* who) {
    if (bytes <= 0 || (tightest.bytes > 0 && bytes >= tightest.bytes)) return;
    tightest = {bytes, fmt::format("{} {}", who, human_bytes(static_cast<double>(bytes)))};
  };
  consider(machine_bytes, "this machine has");
  consider(cgroup.memory_bytes, "this machine's control group allows");
  consider(limits.address_bytes.value_or(0), "`ulimit -v` allows");
  consider(limits.data_bytes.value_or(0), "`ulimit -d` allows");
  return tightest;
}

MemoryLimit memory_limit() {
  return memory_limit(machine_facts().memory_bytes, read_cgroup(), read_limits());
}

}  // namespace convoy::machine
