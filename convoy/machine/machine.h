#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace convoy::machine {

/// What a measurement was made on. Facts that cannot be found are "unknown" or 0.
struct MachineFacts {
  std::string host;
  std::string cpu;
  int cores = 0;  ///< that this process may use
  int64_t memory_bytes = 0;
  std::string system;  ///< distribution and kernel
};

MachineFacts machine_facts();

/// Lines for the head of a report: the machine, then `versions` ("torch" to "2.15.0") on one line.
std::vector<std::string> machine_lines(const MachineFacts& facts,
                                       const std::map<std::string, std::string>& versions = {});

}  // namespace convoy::machine
