#include "convoy/machine/cgroup.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "convoy/base/text.h"
#include "convoy/machine/system_files.h"

namespace convoy::machine {
namespace {

namespace fs = std::filesystem;

/// Limit from which on there is none: version 1 writes the largest page-aligned number.
constexpr int64_t kNoLimit = int64_t{1} << 60;

template <class T>
void tighten(T& limit, T found) {
  if (found > 0 && (limit == 0 || found < limit)) limit = found;
}

int64_t limit_in(const fs::path& file) {
  const int64_t number = leading_number(line_in(file), 0);  // "max" is no number
  return number < kNoLimit ? number : 0;
}

/// Number of CPUs for a `quota` of every `period`.
double cpus(const std::string& quota, const std::string& period) {
  const auto used = static_cast<double>(leading_number(quota, 0));
  const auto whole = static_cast<double>(leading_number(period, 0));
  return used > 0 && whole > 0 ? used / whole : 0;
}

/// Returns the memory left below a limit, for the files of both versions. The page cache counts as
/// free.
int64_t memory_left(int64_t limit, const fs::path& used, const fs::path& stat, const char* files) {
  if (limit == 0) return 0;
  const int64_t held =
      leading_number(line_in(used), 0) - leading_number(value_in(stat, files, ' '), 0);
  return std::max<int64_t>(1, limit - held);
}

void look(const fs::path& folder, CgroupLimits& limits) {
  const auto both = split(line_in(folder / "cpu.max"), ' ');
  if (both.size() == 2) tighten(limits.cpus, cpus(both[0], both[1]));
  tighten(limits.cpus,
          cpus(line_in(folder / "cpu.cfs_quota_us"), line_in(folder / "cpu.cfs_period_us")));
  const auto stat = folder / "memory.stat";
  const auto second = limit_in(folder / "memory.max");
  const auto first = limit_in(folder / "memory.limit_in_bytes");
  tighten(limits.memory_bytes, second);
  tighten(limits.memory_bytes, first);
  tighten(limits.memory_left,
          memory_left(second, folder / "memory.current", stat, "inactive_file"));
  tighten(limits.memory_left,
          memory_left(first, folder / "memory.usage_in_bytes", stat, "total_inactive_file"));
  tighten(limits.processes, limit_in(folder / "pids.max"));
}

}  // namespace

CgroupLimits read_cgroup(const fs::path& root) {
  CgroupLimits limits;
  const auto trees = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // "4:cpu,cpuacct:/a/b" or "0::/a/b"
    const auto parts = split(line, ':');
    if (parts.size() < 3) continue;
    auto tree = parts[1].empty() ? trees / "unified" : trees / parts[1];
    if (!fs::exists(tree)) tree = parts[1].empty() ? trees : trees / split(parts[1], ',').front();
    // A container may see its own group as the top and still be told the host's path: what is not
    // there says nothing.
    for (fs::path group = fs::path(parts[2]).lexically_normal();; group = group.parent_path()) {
      look(tree / group.relative_path(), limits);
      if (!group.has_relative_path()) break;
    }
  }
  return limits;
}

}  // namespace convoy::machine
