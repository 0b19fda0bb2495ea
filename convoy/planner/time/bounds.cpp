#include "convoy/planner/time/bounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/parallel/zero/least_gathers.h"
#include "convoy/planner/time/bound_parts.h"
#include "convoy/planner/time/offload.h"
#include "convoy/planner/time/uneven.h"

namespace convoy::planner {

using parallel::Cut;

namespace {

/// Lower bound of a step of one cut: all work of a rank, with the first micro-batch's way to it and
/// the last one's way back.
double least_of_cut(const Cut& cut, const parallel::Costs& costs, const ModelCosts& numbers,
                    const Parallelism& split) {
  const bool halves = split.pipeline.schedule->halves;
  const auto stages = static_cast<size_t>(split.ranks.pipeline);
  std::vector<double> comes(stages, -1), leaves(stages, 0), work(stages, 0), weights(stages, 0);
  std::vector<std::vector<double>> again_of(stages);  // forward of what may be recomputed
  double there = 0, back = 0;
  for (size_t v = 0; v < cut.size(); ++v) {
    const auto rank = static_cast<size_t>(cut[v].stage);
    if (comes[rank] < 0) {
      comes[rank] = there;
      leaves[rank] = back;
    }
    for (int64_t block = cut[v].first_block; block <= cut[v].last_block; ++block) {
      const auto b = static_cast<size_t>(block);
      const double again = is_recomputed(numbers, split, b) ? 1 : 0;
      const double weight = halves ? costs.weight[b] : 0;
      there += costs.forward[b];
      back += again * costs.forward[b] + costs.backward[b] - weight;
      work[rank] += (1 + again) * costs.forward[b] + costs.backward[b];
      weights[rank] += weight;
      if (may_be_recomputed(numbers, split, b)) again_of[rank].push_back(costs.forward[b]);
    }
    if (v + 1 == cut.size() || cut[v + 1].stage == cut[v].stage) continue;
    const auto border = static_cast<size_t>(cut[v].last_block);
    there += costs.send[border];
    back += costs.send_grad[border];
  }
  const auto micro_batches = static_cast<double>(split.micro_batches);
  double out = 0;
  for (size_t r = 0; r < stages; ++r) {
    work[r] += least_of(std::move(again_of[r]), split.blocks_recomputed());
    out = std::max({out, comes[r] + micro_batches * work[r],
                    comes[r] + micro_batches * (work[r] - weights[r]) + leaves[r]});
  }
  return out;
}

/// Lower bound by the links: a step's reductions of gradients and stage 3's gathers of weights, one
/// after the other.
double least_of_links(const ModelCosts& numbers, const Cluster& cluster, const parallel::Mesh& mesh,
                      const StepFacts& facts, const Parallelism& split,
                      const std::vector<double>& of_blocks) {
  if (split.state_ranks() == 1) return 0;
  auto* known = numbers.known_groups();
  const GroupTimes state(cluster, mesh, parallel::kState, known);
  const double elements =
      std::accumulate(of_blocks.begin(), of_blocks.end(), 0.0) / split.ranks.pipeline;
  const auto micro_batches = static_cast<double>(split.micro_batches);
  const double bytes = sizeof(float) * elements;
  if (split.zero == 0) {
    return GroupTimes(cluster, mesh, parallel::kGradients, known)
        .least(Collective::AllReduce, bytes);
  }
  const bool each = split.reduces_each_shard();
  double out = state.least(Collective::ReduceScatter, bytes) * (each ? micro_batches : 1);
  if (split.zero < 3 || split.ranks.pipeline > 1 || split.keep_bytes > 0) return out;
  const auto least =
      parallel::least_gathers(split, elements, elements_read_in_backward(numbers, facts, split),
                              *std::max_element(of_blocks.begin(), of_blocks.end()));
  if (least.elements <= 0) return out;
  const auto width = static_cast<double>(parallel::weight_bytes(facts.low_precision));
  return out + static_cast<double>(least.times) *
                   state.least(Collective::AllGather, width * least.elements);
}

/// Lower bound of a step's computing, updates included.
struct Computing {
  double seconds = 0, updates = 0;
  double elements = 0;  ///< that a rank updates
};

/// Lower bound of the time of all blocks for a micro-batch, and the sums' part of it.
struct Work {
  double seconds = 0, sums = 0;
};

Work work_of(const parallel::Costs& costs, const ModelCosts& numbers, const Parallelism& split) {
  Work out;
  std::vector<double> again;  // any blocks of all stages might be the ones that are recomputed
  for (size_t b = 0; b < costs.forward.size(); ++b) {
    const double times = is_recomputed(numbers, split, b) ? 2 : 1;
    out.seconds += times * costs.forward[b] + costs.backward[b];
    out.sums += times * costs.forward_sums[b] + costs.backward_sums[b];
    if (!may_be_recomputed(numbers, split, b)) continue;
    again.push_back(costs.forward[b] - costs.forward_sums[b]);
  }
  out.seconds += least_of(std::move(again), split.blocks_recomputed() * split.ranks.pipeline);
  return out;
}

/// Lower bound for unequal devices. The slowest pipeline has as many rows as any other. A stage of
/// speed v takes T >= M (c / v + k) for its share c of the computing and k of the sums, so T sum(v)
/// >= M (sum(c) + sum(k) min(v)).
double least_of_unequal(const Work& work, double micro_batches,
                        const std::vector<std::vector<double>>& pipelines) {
  double out = 0;
  for (const auto& speeds : pipelines) {
    const double slowest = *std::min_element(speeds.begin(), speeds.end());
    out = std::max(out, micro_batches * (work.seconds - work.sums + work.sums * slowest) /
                            std::accumulate(speeds.begin(), speeds.end(), 0.0));
  }
  return out;
}

double least_of_equal(const Work& work, double micro_batches, const Parallelism& split) {
  if (split.ranks.pipeline == 1 || split.pipeline.schedule->interleaved) {
    return work.seconds * micro_batches / split.ranks.pipeline;
  }
  // A stage with one virtual stage waits for those before it to run forward once, and they for it
  // to run backward: T >= M c_s + (c_0 + ... + c_(s-1)) for every s, whatever the cut.
  return work.seconds / (1 - std::pow(1 - 1 / micro_batches, split.ranks.pipeline));
}

Computing computing_of(const ModelCosts& numbers, const Cluster& cluster, const StepFacts& facts,
                       const Parallelism& split) {
  const auto mesh = split.mesh();
  auto* known = numbers.known_groups();
  const auto link =
      known ? known->fastest_link(cluster, mesh) : fastest_link_of_stages(cluster, mesh);
  const auto costs =
      seconds_of(numbers.blocks_of(mesh, split), cluster, mesh, link, facts.low_precision, known);
  const auto work = work_of(costs, numbers, split);
  const auto micro_batches = static_cast<double>(split.micro_batches);
  const int64_t shard = split.shard_ranks() > 0 ? split.shard_ranks() : split.state_ranks();
  const auto updating = static_cast<double>(split.ranks.pipeline * (split.zero > 0 ? shard : 1));
  const auto of_blocks = elements_of(numbers, facts, split);
  Computing out;
  const double elements = std::accumulate(of_blocks.begin(), of_blocks.end(), 0.0);
  out.elements = elements / updating;
  out.updates = out.elements * numbers.update_seconds;
  double adding = 0;  // micro-batches' gradients, on average of the stages
  if (!split.reduces_each_shard()) {
    adding = elements / split.ranks.pipeline * (micro_batches - 1) * numbers.accumulate_seconds;
  }
  if (!cluster.each.empty()) {
    const auto speeds = speeds_of(cluster, mesh, facts.low_precision);
    double fastest = 1;
    for (const auto& each : speeds) {
      fastest = std::max(fastest, *std::max_element(each.begin(), each.end()));
    }
    out.updates /= fastest;
    out.seconds = least_of_unequal(work, micro_batches, speeds) + adding / fastest + out.updates;
    return out;
  }
  out.seconds = std::max(least_of_equal(work, micro_batches, split),
                         work.seconds * micro_batches / split.ranks.pipeline + adding) +
                out.updates;
  if (split.ranks.pipeline == 1) return out;
  double of_cuts = std::numeric_limits<double>::infinity();
  const auto cuts = cuts_of(numbers, facts, split);
  for (const auto& cut : cuts) {
    of_cuts = std::min(of_cuts, least_of_cut(cut, costs, numbers, split));
  }
  if (!cuts.empty()) out.seconds = std::max(out.seconds, of_cuts);
  return out;
}

}  // namespace

double least_computing(const ModelCosts& numbers, const Cluster& cluster, const StepFacts& facts,
                       const Parallelism& split) {
  return computing_of(numbers, cluster, facts, split).seconds;
}

double least_seconds(const ModelCosts& numbers, const Cluster& cluster, const StepFacts& facts,
                     const Parallelism& split) {
  const auto computing = computing_of(numbers, cluster, facts, split);
  // Gradients of experts are summed over other ranks.
  const double links = least_of_links(numbers, cluster, split.mesh(), facts, split,
                                      elements_beside_experts(numbers, facts, split));
  const double least = std::max(computing.seconds, links + computing.updates);
  if (!split.offload.any()) return least;
  const double transfers = least_transfer_seconds(computing.elements, cluster, split, facts);
  return std::max(least, transfers);
}

}  // namespace convoy::planner
