#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/train/setup/job.h"

// Who the ranks of a job are.
namespace convoy::train {

namespace {

/// How many ranks of a stage keep a state replica together.
int64_t ranks_of_replica(const ParallelArguments& arguments, int64_t ranks_of_stage,
                         const launch::RankEnvironment& environment) {
  const auto& text = arguments.shard_ranks;
  if (text == "all" || environment.world_size == 1) return ranks_of_stage;
  const int64_t here = environment.local_world_size / arguments.num_tensor_ranks();
  int64_t size = std::clamp<int64_t>(here, 1, ranks_of_stage);
  if (text != "host" && (!parse_number(text, size) || size < 1)) {
    fail<UsageError>("parallel", "shard_ranks = {}; expected all, host, or a number of ranks",
                     text);
  }
  if (ranks_of_stage % size != 0) {
    int64_t fits = std::min(size, ranks_of_stage);
    while (ranks_of_stage % fits != 0) --fits;
    fail<UsageError>("parallel", "shard_ranks = {}{} does not divide the {} ranks {}; try {}", text,
                     text == "host" ? fmt::format(", {} here,", size) : "", ranks_of_stage,
                     ranks_of_stage == environment.world_size ? "of the job" : "of a stage",
                     fits == 1 ? "all" : std::to_string(fits));
  }
  return size;
}

}  // namespace

void check_shared_tokens(const ParallelArguments& arguments) {
  if (!arguments.sequence_parallel || arguments.tensor_parallel_size > 1) return;
  fail<UsageError>("parallel",
                   "sequence_parallel shares out tokens over tensor ranks, but "
                   "tensor_parallel_size = 1; try --tensor_parallel_size 2, or without it");
}

schedule::Mesh mesh_of(const ParallelArguments& arguments,
                       const launch::RankEnvironment& environment) {
  const int64_t stages = arguments.num_stages(), cuts = arguments.num_tensor_ranks();
  const int64_t ranks = environment.world_size, model = stages * cuts;
  check_shared_tokens(arguments);
  if (ranks % model != 0) {
    std::vector<std::string> why;
    if (stages > 1 || cuts == 1) why.push_back(fmt::format("pipeline_parallel_size = {}", stages));
    if (cuts > 1) why.push_back(fmt::format("tensor_parallel_size = {}", cuts));
    const int64_t fit = (ranks / model + 1) * model;
    fail<UsageError>("parallel",
                     "{} {} a process for each {}; got {}; try --nproc {}, or convoy launch -n {} "
                     "...",
                     fmt::join(why, " and "), why.size() == 1 ? "needs" : "need",
                     cuts == 1     ? "stage"
                     : stages == 1 ? "tensor rank"
                                   : fmt::format("tensor rank of each stage, {} together", model),
                     ranks == 1 ? "one process" : fmt::format("{} ranks", ranks), fit, fit);
  }
  schedule::MeshDegrees degrees;
  degrees.pipeline = static_cast<int>(stages);
  degrees.tensor = static_cast<int>(cuts);
  degrees.shard = static_cast<int>(ranks_of_replica(arguments, ranks / model, environment));
  degrees.replicate = static_cast<int>(ranks / model) / degrees.shard;
  return {degrees, environment.rank, environment.world_size};
}

void check_state_replicas(const schedule::Mesh& mesh, const std::vector<std::string>& hosts) {
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    const auto together = mesh.of(rank).ranks_along(schedule::kState);
    const auto& first = hosts.at(static_cast<size_t>(together.front()));
    const auto& own = hosts.at(static_cast<size_t>(rank));
    if (own == first) continue;
    fail<UsageError>(
        "parallel",
        "shard_ranks = host lets ranks {} to {} keep a state replica together; got rank {} on "
        "{}, rank {} on {}; start the ranks of a host one after the other (srun -m "
        "block), as many on each",
        together.front(), together.back(), together.front(), first, rank, own);
  }
}

}  // namespace convoy::train
