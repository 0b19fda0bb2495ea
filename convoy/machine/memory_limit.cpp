#include "convoy/machine/memory_limit.h"

#include <fmt/format.h>
#include <algorithm>

#include "convoy/base/text.h"
#include "convoy/machine/host.h"
#include "convoy/machine/system_files.h"

namespace convoy::machine {

MemoryLimit memory_limit(int64_t machine_bytes, const CgroupLimits& cgroup, const Limits& limits) {
  MemoryLimit tightest;
  const auto consider = [&](int64_t bytes, const char* who) {
    if (bytes <= 0 || (tightest.bytes > 0 && bytes >= tightest.bytes)) return;
    tightest = {bytes, fmt::format("{} {}", who, human_bytes(bytes))};
  };
  consider(machine_bytes, "this machine has");
  consider(cgroup.memory_bytes, "this machine's control group allows");
  consider(limits.address_bytes.value_or(0), "`ulimit -v` allows");
  consider(limits.data_bytes.value_or(0), "`ulimit -d` allows");
  return tightest;
}

MemoryLimit memory_limit() {
  return memory_limit(read_host().memory_bytes, read_cgroup(), read_limits());
}

int64_t available_memory(const std::filesystem::path& root) {
  const auto bytes = [&](const char* key) {
    return leading_number(value_in(root / "proc/meminfo", key, ':'), 0) * 1024;
  };
  const int64_t machine = bytes("MemAvailable") + bytes("SwapFree");
  const int64_t group = read_cgroup(root).memory_left;
  return machine > 0 && group > 0 ? std::min(machine, group) : std::max(machine, group);
}

std::optional<int64_t> memory_kills(const std::filesystem::path& root) {
  const int64_t kills = leading_number(value_in(root / "proc/vmstat", "oom_kill", ' '), -1);
  return kills < 0 ? std::nullopt : std::optional(kills);
}

}  // namespace convoy::machine
