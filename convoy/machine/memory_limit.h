#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "convoy/machine/cgroup.h"
#include "convoy/machine/limits.h"

namespace convoy::machine {

/// Most memory that this process can have, and who says so.
struct MemoryLimit {
  int64_t bytes = 0;  ///< 0 = unknown
  std::string text;   ///< "this machine has 15.6 GiB"
};

/// Returns the tightest of the machine's memory, its control group and `ulimit -v` and `-d`.
MemoryLimit memory_limit(int64_t machine_bytes, const CgroupLimits& cgroup, const Limits& limits);

/// Memory limit of this process, read from this machine.
MemoryLimit memory_limit();

/// Bytes that this process can still take before the kernel ends a process for it: the least of
/// those left on the machine, swap included, and in its control group. 0 = unknown.
int64_t available_memory(const std::filesystem::path& root = "/");

/// Number of processes that the kernel ended since it started because memory was short; none where
/// it does not tell.
std::optional<int64_t> memory_kills(const std::filesystem::path& root = "/");

}  // namespace convoy::machine
