#include "convoy/parallel/parallelism.h"

#include <fmt/format.h>

#include "convoy/base/text.h"
#include "convoy/parallel/mesh.h"

namespace convoy::parallel {

void Parallelism::set_shard_ranks(int64_t number) {
  const int64_t all = state_ranks();
  ranks.replicate = number > 0 ? all / number : 1;
  ranks.shard = all / ranks.context / ranks.expert / ranks.replicate;
}

void Parallelism::set_blocks_recomputed(int64_t number) {
  recomputed = {};
  if (number > 0) recomputed.of_stage = {number};
}

Mesh Parallelism::mesh() const {
  return mesh(static_cast<int>(ranks.context * ranks.tensor - 1));
}

Mesh Parallelism::mesh(int rank) const {
  return {ranks, rank, static_cast<int>(num_ranks())};
}

std::string Parallelism::family() const {
  std::vector<std::string> out;
  if (ranks.pipeline > 1) out.emplace_back("pipeline");
  if (ranks.expert > 1) out.emplace_back("expert");
  if (ranks.context > 1) out.emplace_back("context");
  if (ranks.tensor > 1) out.emplace_back("tensor");
  if (sequence_parallel) out.emplace_back("sequence");
  if (zero > 0) {
    out.push_back(fmt::format("{}zero {}", shard_ranks() > 0 ? "hybrid " : "", zero));
  } else if (ranks.data() > ranks.expert) {
    out.emplace_back(out.empty() ? "ddp" : "data");
  }
  if (out.empty()) out.emplace_back("one device");
  if (offload.any()) out.emplace_back("offload");
  return join(out, " x ");
}

}  // namespace convoy::parallel
