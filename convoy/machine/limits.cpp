#include "convoy/machine/limits.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "convoy/machine/system_files.h"

namespace convoy::machine {
namespace {

namespace fs = std::filesystem;

std::optional<int64_t> finite(rlim_t limit) {
  if (limit == RLIM_INFINITY) return std::nullopt;
  return static_cast<int64_t>(limit);
}

Space space_in(const fs::path& folder) {
  Space space;
  space.path = folder.string();
  struct statvfs info{};
  if (::statvfs(folder.c_str(), &info) != 0) return space;
  const auto block = static_cast<int64_t>(info.f_frsize);
  space.total_bytes = static_cast<int64_t>(info.f_blocks) * block;
  space.free_bytes = static_cast<int64_t>(info.f_bavail) * block;
  space.writable = ::access(folder.c_str(), W_OK) == 0;
  return space;
}

}  // namespace

std::vector<int> own_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) {  // more of them than the set holds
    return cpus_in(line_in("/sys/devices/system/cpu/online"));
  }
  std::vector<int> out;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) out.push_back(core);
  }
  return out;
}

Limits read_limits() {
  Limits limits;
  limits.usable_cpus = std::max(1, static_cast<int>(own_cores().size()));
  struct rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limits.open_files = finite(limit.rlim_cur);
    limits.most_open_files = finite(limit.rlim_max);
  }
  if (::getrlimit(RLIMIT_NPROC, &limit) == 0) limits.processes = finite(limit.rlim_cur);
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0) limits.locked_bytes = finite(limit.rlim_cur);
  if (::getrlimit(RLIMIT_AS, &limit) == 0) limits.address_bytes = finite(limit.rlim_cur);
  if (::getrlimit(RLIMIT_DATA, &limit) == 0) limits.data_bytes = finite(limit.rlim_cur);
  limits.shared_memory = space_in("/dev/shm");
  std::error_code failed;
  auto temporary = fs::temp_directory_path(failed);  // fails where TMPDIR names no folder
  const char* named = std::getenv("TMPDIR");
  limits.temporary = space_in(failed ? fs::path(named ? named : "/tmp") : temporary);
  limits.here = space_in(fs::current_path(failed));
  return limits;
}

}  // namespace convoy::machine
