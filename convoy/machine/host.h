#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace convoy::machine {

/// Cores and the memory that is near to them.
struct NumaNode {
  int id = 0;
  std::vector<int> cpus;
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;
  std::vector<int> distances;  ///< to each node; 10 = itself
};

/// Facts that the kernel reports about this machine; unknown ones are "", 0 or empty.
struct Host {
  std::string name;
  std::string system;  ///< distribution and kernel
  std::string cpu;
  int sockets = 0;
  int cores = 0;
  int threads = 0;                        ///< that are online: two or more a core with SMT
  std::vector<std::string> instructions;  ///< sets that matter to matrix products: "AVX2", ...
  std::vector<NumaNode> nodes;
  int64_t memory_bytes = 0;
  int64_t available_bytes = 0;  ///< without swapping
  int64_t swap_bytes = 0;
  std::string huge_pages;  ///< transparent ones: always, madvise or never
  int overcommit = -1;     ///< vm.overcommit_memory: 0 guess, 1 always, 2 never; -1 = unknown
};

/// Returns the NUMA nodes by number; none where the system tells of none.
std::vector<NumaNode> read_nodes(const std::filesystem::path& root = "/");

/// Reads /proc, /sys and /etc below `root`.
Host read_host(const std::filesystem::path& root = "/");

/// Lines for the head of a report: `host`, of which a measurement used `num_cores` cores, then
/// `versions` ("torch" to "2.15.0") on one line.
std::vector<std::string> machine_lines(const Host& host, int num_cores,
                                       const std::map<std::string, std::string>& versions = {});

/// Report lines for this machine and the cores that this process may use.
std::vector<std::string> machine_lines(const std::map<std::string, std::string>& versions);

}  // namespace convoy::machine
