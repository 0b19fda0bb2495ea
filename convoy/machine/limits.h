#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace convoy::machine {

/// Room on the file system of a folder.
struct Space {
  std::string path;
  bool writable = false;
  int64_t total_bytes = 0;  ///< 0 when the folder cannot be looked at
  int64_t free_bytes = 0;
};

/// Limits that the system sets for this process.
struct Limits {
  int usable_cpus = 1;  ///< by affinity
  /// `ulimit -n`, `-u` and `-l`; none = unlimited.
  std::optional<int64_t> open_files;
  std::optional<int64_t> most_open_files;  ///< that `ulimit -n` could be raised to
  std::optional<int64_t> processes;        ///< threads count
  std::optional<int64_t> locked_bytes;
  /// `ulimit -v` and `-d`.
  std::optional<int64_t> address_bytes;
  std::optional<int64_t> data_bytes;
  Space shared_memory;  ///< /dev/shm
  Space temporary;
  Space here;  ///< the present folder
};

/// Returns the CPUs that this process may run on.
std::vector<int> own_cores();

Limits read_limits();

}  // namespace convoy::machine
