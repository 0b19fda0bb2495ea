#include "convoy/comm/groups.h"

#include <map>
#include <string_view>

namespace convoy::comm {

using parallel::Axis;
using parallel::AxisSet;

namespace {

/// Rounds of pairs of neighbours in the ring, which any order of stages uses. A rank without a pair
/// in a round does not wait in it.
Pairs neighbours(int size) {
  Pairs pairs;
  for (const int first : {0, 1}) {
    for (int rank = first; rank + 1 < size; rank += 2) pairs.emplace_back(rank, rank + 1);
  }
  if (size > 2) pairs.emplace_back(0, size - 1);
  return pairs;
}

}  // namespace

Groups::Groups(const Group& data)
    : mesh({}, data.rank(), data.size()),
      world(data),
      rows(data),
      gradients(data),
      shard(data),
      expert_gradients(data),
      expert_shard(data) {}

Groups::Groups(const parallel::Mesh& mesh, const Connect& connect, const Connect& connect_hosts)
    : mesh(mesh) {
  std::map<std::vector<int>, Group> made;
  const auto make = [&](AxisSet axes, const char* name) -> Group {
    const auto ranks = mesh.ranks_along(axes);
    if (ranks.size() == 1) return {};
    const auto known = made.find(ranks);
    if (known != made.end()) return known->second;
    return made[ranks] = connect(ranks, fmt::format("{}-{}", name, ranks.front()));
  };
  world = make(parallel::kWorld, "world");
  pipeline = pipeline_back = make(Axis::Pipeline, "pipeline");
  gradients = make(parallel::kGradients, "gradients");
  rows = make(parallel::kRows, "rows");
  shard = make(parallel::kState, "shard");
  replicas = make(Axis::Replicate, "replicas");
  experts = make(Axis::Expert, "experts");
  expert_gradients = make(parallel::kExpertGradients, "gradients-of-experts");
  expert_shard = make(parallel::kExpertState, "shard-of-experts");
  context = make(Axis::Context, "context");
  tensor = make(Axis::Tensor, "tensor");
  // NCCL's send waits for its receive, so each direction needs a communicator of its own.
  if (pipeline.size() > 1 && std::string_view(pipeline.engine()) == "nccl") {
    const auto stages = mesh.ranks_along(Axis::Pipeline);
    pipeline_back = connect(stages, fmt::format("pipeline-back-{}", stages.front()));
    pipeline_heads = connect_hosts(stages, fmt::format("pipeline-heads-{}", stages.front()));
    const auto pairs = neighbours(pipeline.size());
    pipeline.connect_pairs(pairs, "connect stages");
    pipeline_back.connect_pairs(pairs, "connect stages for gradients");
  }
}

std::vector<Group> Groups::all() const {
  return {
      world,        rows,    gradients, shard,    replicas,      experts,       expert_gradients,
      expert_shard, context, tensor,    pipeline, pipeline_back, pipeline_heads};
}

void Groups::abort(const std::string& reason) const {
  for (const auto& group : all()) group.abort(reason);
}

Traffic Groups::traffic() const {
  return Group::traffic_of(all());
}

}  // namespace convoy::comm
