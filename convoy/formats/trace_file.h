#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace convoy::formats {

/// Span that convoy named in a trace: an instruction, a collective that started, a wait.
struct TraceMark {
  std::string name;
  double begin = 0, end = 0;  ///< seconds, of a clock that no two ranks share
};

/// Trace that a rank wrote with `--trace`, without torch's operations.
struct TraceFile {
  std::filesystem::path path;
  int num_ranks = 1;                                  ///< of the training
  std::map<int64_t, std::vector<TraceMark>> threads;  ///< in the order of their beginnings
};

/// Reads a Chrome trace. Throws FileError where it cannot be read, or convoy did not write it.
TraceFile read_trace(const std::filesystem::path& path);

/// Rank `rank`'s file, which lies beside `trace`, that of rank 0.
std::filesystem::path trace_of_rank(std::filesystem::path trace, int rank);

}  // namespace convoy::formats
