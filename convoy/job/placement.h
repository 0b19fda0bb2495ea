#pragma once

#include <string>
#include <vector>

namespace convoy::job {

struct Job;

/// Place of one rank.
struct RankPlacement {
  std::string host;
  std::string device;
  std::string cores;  ///< of the processor, that it may use: "0-3"
};

/// Places of all ranks, by rank. Every rank calls it; long texts are cut.
std::vector<RankPlacement> gather_placements(const Job& job);

/// A table of the placements, or "" where it would tell nothing: all ranks on one host, on CPU,
/// with the same cores.
std::string placements_table(const std::vector<RankPlacement>& placements);

}  // namespace convoy::job
