#pragma once

#include <cstdint>
#include <filesystem>

namespace convoy::machine {

/// Limits that a container or a batch system sets for this process. 0 = no limit.
struct CgroupLimits {
  double cpus = 0;           ///< CPU time, in CPUs
  int64_t memory_bytes = 0;  ///< beyond it the kernel kills processes
  int64_t processes = 0;     ///< threads count
  int64_t memory_left = 0;   ///< below memory_bytes, at least 1 where there is a limit
};

/// Returns the tightest limits of this process's control group and those above it, of version 1 and
/// 2, as far as they can be seen below `root`.
CgroupLimits read_cgroup(const std::filesystem::path& root = "/");

}  // namespace convoy::machine
