#include "convoy/planner/search/splits.h"

#include <fmt/ranges.h>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/parallel/refuse.h"

namespace convoy::planner {

namespace {

/// Divisors of a number, ascending.
std::vector<int64_t> divisors(int64_t of) {
  std::vector<int64_t> out, others;
  for (int64_t d = 1; d <= of / d; ++d) {
    if (of % d != 0) continue;
    out.push_back(d);
    if (of / d != d) others.push_back(of / d);
  }
  out.insert(out.end(), others.rbegin(), others.rend());
  return out;
}

/// Numbers of rows of a micro-batch that divide the rows of a data rank's step.
std::vector<int64_t> rows_of(int64_t of_rank, int64_t most) {
  std::vector<int64_t> out;
  for (const int64_t rows : divisors(of_rank)) {
    const bool even = (rows & (rows - 1)) == 0;
    if (rows <= most && (even || rows == of_rank)) out.push_back(rows);
  }
  return out;
}

/// Returns the numbers of ranks over which ZeRO may shard the state: all, or those of a host.
std::vector<int64_t> shards_of(const SearchSpace& space, const Parallelism& split) {
  const int64_t here = space.ranks_per_host / split.ranks.tensor, all = split.state_ranks();
  const int64_t together = all / split.ranks.shard / split.ranks.replicate;
  const bool divides = here > 1 && here < all && all % here == 0 && here % together == 0;
  if (split.zero == 0 || !divides) return {0};
  return {0, here};
}

/// Sets the ZeRO stage of a single rank: the one that offloading needs, else 0.
void set_zero_of_one_rank(Parallelism& split) {
  if (split.state_ranks() == 1) split.zero = parallel::least_zero(split.offload);
}

/// Adds variants of `splits` with some of their state in other places, those with less of it first.
void add_offloaded(std::vector<Parallelism>& splits, const SearchSpace& space) {
  using parallel::Place;
  std::vector<Place> all{Place::Device};
  all.insert(all.end(), space.offload.begin(), space.offload.end());
  const auto on_devices = splits;
  for (int64_t parts = 1; parts <= 3; ++parts) {
    for (const auto optimizer : all) {
      for (const auto gradients : all) {
        for (const auto parameters : all) {
          const int64_t here = (optimizer == Place::Device ? 1 : 0) +
                               (gradients == Place::Device ? 1 : 0) +
                               (parameters == Place::Device ? 1 : 0);
          if (3 - here != parts) continue;
          for (auto split : on_devices) {
            split.offload.optimizer = optimizer;
            split.offload.gradients = gradients;
            split.offload.parameters = parameters;
            if (parameters != Place::Device) split.keep_bytes = 0;
            set_zero_of_one_rank(split);
            if (!parallel::refuse(split, space.facts)) splits.push_back(split);
          }
        }
      }
    }
  }
}

}  // namespace

namespace {

/// Adds the variants of a mesh with its micro-batches by ZeRO stage, schedule and recomputation.
void add_variants(std::vector<Parallelism>& out, const SearchSpace& space, Parallelism split) {
  // Stages 2 and 3 with a pipeline reduce or gather for each micro-batch: the seeds advise against
  // it, and it never won a trial here.
  const int64_t most = split.state_ranks() == 1 ? 0 : split.ranks.pipeline > 1 ? 1 : 3;
  for (split.zero = 0; split.zero <= most; ++split.zero) {
    for (const int64_t shard : shards_of(space, split)) {
      split.set_shard_ranks(shard);
      for (const bool sequence : {false, true}) {
        split.sequence_parallel = sequence;
        if (sequence && (!space.takes_sequence || split.ranks.tensor == 1)) continue;
        for (const bool recompute : {false, true}) {
          if (recompute && !space.takes_recompute) continue;
          split.recompute = recompute;
          for (const auto schedule :
               parallel::planned_schedules(split.ranks.pipeline, split.micro_batches)) {
            const bool several = schedule->interleaved;
            const int64_t each = several ? space.base.pipeline.virtual_stages : 1;
            if (split.ranks.pipeline > 1 && each * split.ranks.pipeline > space.most_stages)
              continue;
            split.pipeline.schedule = schedule;
            out.push_back(split);
          }
        }
      }
    }
  }
}

/// Numbers of expert ranks that so many data ranks may be: those of one host.
std::vector<int64_t> expert_ranks_of(const SearchSpace& space, const Parallelism& split,
                                     int64_t data) {
  if (space.num_experts == 0 || split.ranks.tensor > 1) return {1};
  const int64_t here = space.ranks_per_host == 0 ? space.num_ranks : space.ranks_per_host;
  std::vector<int64_t> out;
  for (const int64_t ranks : divisors(data)) {
    const int64_t neighbours = ranks * split.ranks.context;
    const bool inside = neighbours <= here && (here % neighbours == 0 || ranks == data);
    if (ranks == 1 || (inside && space.num_experts % ranks == 0)) out.push_back(ranks);
  }
  return out;
}

/// Adds the splits with the pipeline, context and tensor degrees of `split`, for all rows of a
/// micro-batch.
void add_meshes(std::vector<Parallelism>& out, const SearchSpace& space, Parallelism split) {
  const bool beyond_host = space.ranks_per_host > 0 && split.ranks.tensor > space.ranks_per_host;
  if (split.ranks.context > 1 && beyond_host) return;  // rings between hosts cost less
  split.ranks.shard =
      space.num_ranks / (split.ranks.pipeline * split.ranks.context * split.ranks.tensor);
  if (space.global_batch % split.ranks.data() != 0) return;
  const int64_t of_rank = space.global_batch / split.ranks.data();
  // Context ranks that share out two rows are two data ranks with a row each that send too much.
  const int64_t most = split.ranks.context > 1 ? 1 : space.most_rows;
  for (const int64_t rows : rows_of(of_rank, most)) {
    split.rows = rows;
    split.micro_batches = of_rank / rows;
    const int64_t data = split.ranks.data();
    for (const int64_t experts : expert_ranks_of(space, split, data)) {
      auto dealt = split;
      dealt.set_expert_ranks(experts);
      add_variants(out, space, std::move(dealt));
    }
  }
}

}  // namespace

std::vector<std::string> left_out(const SearchSpace& space) {
  std::vector<std::string> out;
  std::vector<int64_t> undivided;
  for (const int64_t ranks : divisors(space.num_ranks)) {
    if (space.global_batch % ranks != 0) undivided.push_back(ranks);
  }
  if (!undivided.empty()) {
    out.push_back(fmt::format("a step of {} does not divide over {} data ranks",
                              plural(space.global_batch, "row"), fmt::join(undivided, ", ")));
  }
  if (space.num_ranks > space.most_stages) {
    out.push_back(fmt::format("a pipeline of more than {}: each has a block at least",
                              plural(space.most_stages, "stage")));
  }
  if (space.num_ranks > space.most_tensor && !space.beyond_tensor.empty()) {
    out.push_back(space.beyond_tensor);
  }
  return out;
}

std::vector<Parallelism> splits_of(const SearchSpace& space) {
  std::vector<Parallelism> out;
  for (const int64_t context : divisors(space.num_ranks)) {
    if (context > space.most_context) break;
    for (const int64_t tensor : divisors(space.num_ranks / context)) {
      if (tensor > space.most_tensor) break;
      for (const int64_t pipeline : divisors(space.num_ranks / context / tensor)) {
        if (pipeline > space.most_stages) break;
        auto split = space.base;
        split.ranks = {.pipeline = pipeline, .context = context, .tensor = tensor};
        add_meshes(out, space, std::move(split));
      }
    }
  }
  if (!space.offload.empty()) add_offloaded(out, space);
  if (out.empty()) {
    fail<UsageError>("plan",
                     "a step of {} rows does not divide over {} ranks in any way; try a "
                     "batch that {} divides",
                     space.global_batch, space.num_ranks, space.num_ranks);
  }
  return out;
}

std::vector<Parallelism> less_offloaded(const Parallelism& split) {
  using parallel::OffloadOptions;
  std::vector<Parallelism> out;
  for (const auto part :
       {&OffloadOptions::optimizer, &OffloadOptions::gradients, &OffloadOptions::parameters}) {
    if (split.offload.*part == parallel::Place::Device) continue;
    auto& less = out.emplace_back(split);
    less.offload.*part = parallel::Place::Device;
    set_zero_of_one_rank(less);
  }
  return out;
}

}  // namespace convoy::planner
