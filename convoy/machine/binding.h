#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

// Processor cores that a rank may use.
namespace convoy::machine {

enum class Binding {
  kNone,   ///< all that the launcher may use
  kCores,  ///< a share of its own, neighbours in the machine
  kNuma,   ///< all of one NUMA node, which several ranks may share
};

/// Reads none, cores or numa; of torchrun's words node and exclusive mean numa and cores. Throws
/// UsageError.
Binding parse_binding(std::string_view text);

/// Returns the cores of each NUMA node that are among `allowed`; one list of all where the system
/// tells of no nodes.
std::vector<std::vector<int>> numa_nodes(const std::vector<int>& allowed,
                                         const std::filesystem::path& root = "/");

/// Returns the cores of each of `num_ranks` ranks; empty lists for Binding::kNone. With more ranks
/// than cores some share one.
std::vector<std::vector<int>> share_cores(Binding binding, int num_ranks,
                                          const std::vector<std::vector<int>>& nodes);

}  // namespace convoy::machine
