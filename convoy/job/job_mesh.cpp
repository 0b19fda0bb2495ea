#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/job/job.h"

// Places of a job's ranks in the mesh.
namespace convoy::job {

namespace {

/// Returns the number of ranks of a stage that keep a state replica together; context and expert
/// ranks always do.
int64_t ranks_of_replica(const options::ParallelArguments& arguments, int64_t ranks_of_stage,
                         const launch::RankEnvironment& environment) {
  const auto& text = arguments.shard_ranks;
  if (text == "all" || environment.world_size == 1) return ranks_of_stage;
  const int64_t contexts = arguments.num_context_ranks(), experts = arguments.num_expert_ranks();
  const int64_t least = contexts * experts;
  const int64_t here = environment.local_world_size / arguments.num_tensor_ranks();
  int64_t size = std::clamp(here / least * least, least, ranks_of_stage);
  if (text != "host" && (!parse_number(text, size) || size < 1)) {
    fail<UsageError>("parallel", "shard_ranks = {}; expected all, host, or a number of ranks",
                     text);
  }
  if (size % least != 0 && experts > 1) {
    fail<UsageError>("parallel",
                     "shard_ranks = {} with expert_parallel_size = {}: the ranks that have a "
                     "layer's experts among them keep a state replica together; try a multiple of "
                     "{}, or all",
                     size, experts, least);
  }
  if (size % contexts != 0) {
    fail<UsageError>("parallel",
                     "shard_ranks = {} with context_parallel_size = {}: the ranks that share out a "
                     "row keep a state replica together; try a multiple of {}, or all",
                     size, contexts, contexts);
  }
  if (ranks_of_stage % size != 0) {
    int64_t fits = std::min(size, ranks_of_stage);
    while (ranks_of_stage % fits != 0 || fits % least != 0) --fits;
    fail<UsageError>("parallel", "shard_ranks = {}{} does not divide the {} ranks {}; try {}", text,
                     text == "host" ? fmt::format(", {} here,", size) : "", ranks_of_stage,
                     ranks_of_stage == environment.world_size ? "of the job" : "of a stage",
                     fits == least ? "all" : std::to_string(fits));
  }
  return size;
}

}  // namespace

void check_whole_rows(const options::ParallelArguments& arguments) {
  if (arguments.num_expert_ranks() > 1) {
    fail<UsageError>("parallel",
                     "expert_parallel_size = {} is for training and evaluation, where all ranks "
                     "compute as many batches; try without it",
                     arguments.num_expert_ranks());
  }
  if (arguments.parallelism.ranks.context == 1) return;
  fail<UsageError>("parallel",
                   "context_parallel_size = {} is for training and evaluation, and predictions are "
                   "of whole rows; try --tensor_parallel_size, or without it",
                   arguments.parallelism.ranks.context);
}

parallel::Mesh mesh_of(const options::ParallelArguments& arguments,
                       const launch::RankEnvironment& environment) {
  const int stages = arguments.num_stages(), contexts = arguments.num_context_ranks();
  const int cuts = arguments.num_tensor_ranks();
  const int experts = arguments.num_expert_ranks();
  const int64_t ranks = environment.world_size, model = arguments.ranks_of_rows() * experts;
  if (ranks % model != 0) {
    std::vector<std::string> why, who;
    const auto tell = [&](const char* kind, int degree, const char* rank) {
      if (degree == 1) return;
      why.push_back(fmt::format("{}_parallel_size = {}", kind, degree));
      who.insert(who.begin(), rank);
    };
    tell("pipeline", stages, "stage");
    tell("expert", experts, "expert rank");
    tell("context", contexts, "context rank");
    tell("tensor", cuts, "tensor rank");
    const int64_t fit = (ranks / model + 1) * model;
    fail<UsageError>("parallel",
                     "{} {} a process for each {}; got {}; try --nproc {}, or convoy launch -n {} "
                     "...",
                     fmt::join(why, " and "), why.size() == 1 ? "needs" : "need",
                     who.size() == 1
                         ? who[0]
                         : fmt::format("{}, {} together", fmt::join(who, " of each "), model),
                     ranks == 1 ? "one process" : fmt::format("{} ranks", ranks), fit, fit);
  }
  auto degrees = arguments.parallelism.ranks;
  const int64_t of_stage = ranks / stages / cuts;
  const int64_t of_replica = ranks_of_replica(arguments, of_stage, environment);
  degrees.shard = of_replica / contexts / experts;
  degrees.replicate = of_stage / of_replica;
  return {degrees, environment.rank, environment.world_size};
}

void check_state_replicas(const parallel::Mesh& mesh, const std::vector<std::string>& hosts) {
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    const auto together = mesh.of(rank).ranks_along(parallel::kState);
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

}  // namespace convoy::job
