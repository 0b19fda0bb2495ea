#include "convoy/machine/binding.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/machine/host.h"

namespace convoy::machine {
namespace fs = std::filesystem;

Binding parse_binding(std::string_view text) {
  if (text == "none") return Binding::kNone;
  if (text == "cores" || text == "exclusive") return Binding::kCores;
  if (text == "numa" || text == "node") return Binding::kNuma;
  fail<UsageError>("machine", "--bind is '{}'; expected none, cores or numa", text);
}

std::vector<std::vector<int>> numa_nodes(const std::vector<int>& allowed, const fs::path& root) {
  std::vector<std::vector<int>> out;
  for (NumaNode& node : read_nodes(root)) {
    std::erase_if(node.cpus, [&](int core) {
      return std::find(allowed.begin(), allowed.end(), core) == allowed.end();
    });
    if (!node.cpus.empty()) out.push_back(std::move(node.cpus));  // a node may have memory only
  }
  if (out.empty()) out.push_back(allowed);
  return out;
}

std::vector<std::vector<int>> share_cores(Binding binding, int num_ranks,
                                          const std::vector<std::vector<int>>& nodes) {
  const auto ranks = static_cast<size_t>(num_ranks);
  std::vector<std::vector<int>> out(ranks);
  if (binding == Binding::kNone) return out;
  std::vector<int> all;
  for (const auto& node : nodes) all.insert(all.end(), node.begin(), node.end());
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (binding == Binding::kNuma) {
      out[rank] = nodes[rank * nodes.size() / ranks];
    } else if (ranks >= all.size()) {
      out[rank] = {all[rank * all.size() / ranks]};
    } else {
      out[rank].assign(all.begin() + static_cast<int64_t>(rank * all.size() / ranks),
                       all.begin() + static_cast<int64_t>((rank + 1) * all.size() / ranks));
    }
  }
  return out;
}

}  // namespace convoy::machine
