#include "convoy/parallel/host_share.h"

#include <map>
#include <set>
#include <utility>

namespace convoy::parallel {

std::optional<HostShare> host_share(const Mesh& mesh, int first_rank, int num_ranks, bool sharded) {
  using Blocks = std::pair<int, int>;  // stage and tensor rank: which parameters
  const auto blocks_of = [](const Mesh& rank) {
    return Blocks(rank.place(Axis::Pipeline), rank.place(Axis::Tensor));
  };
  std::map<Blocks, std::set<int>> parts, experts;
  HostShare out{
      .first = mesh.rank() == first_rank, .whole = {0, 0}, .experts = {0, 0}, .part = {0, 0}};
  for (int rank = first_rank; rank < first_rank + num_ranks; ++rank) {
    const auto other = mesh.of(rank);
    parts[blocks_of(other)].insert(other.place(kState));
    experts[blocks_of(other)].insert(other.place(Axis::Expert));
    if (blocks_of(other) != blocks_of(mesh)) continue;
    const bool same_part = other.place(kState) == mesh.place(kState);
    const bool same_experts = other.place(Axis::Expert) == mesh.place(Axis::Expert);
    const int before = rank < mesh.rank() ? 1 : 0;
    out.whole.number += before;
    ++out.whole.of;
    out.experts.number += same_experts ? before : 0;
    out.experts.of += same_experts ? 1 : 0;
    out.part.number += same_part ? before : 0;
    out.part.of += same_part ? 1 : 0;
  }
  if (std::ssize(parts) < mesh.degree(Axis::Pipeline | Axis::Tensor)) return std::nullopt;
  for (const auto& [blocks, here] : parts) {
    if (std::ssize(experts.at(blocks)) < mesh.degree(Axis::Expert)) return std::nullopt;
    if (sharded && std::ssize(here) < mesh.degree(kState)) return std::nullopt;
  }
  return out;
}

}  // namespace convoy::parallel
