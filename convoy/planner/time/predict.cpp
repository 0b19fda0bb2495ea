#include "convoy/planner/time/predict.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/parallel/program/counts.h"
#include "convoy/planner/time/offload.h"
#include "convoy/planner/time/step_times.h"
#include "convoy/planner/time/uneven.h"

namespace convoy::planner {

namespace {

using parallel::Axis;
using parallel::Layout;

/// Ranks of a run that are simulated, by pipeline.
struct Played {
  std::vector<parallel::RankProgram> ranks;
  std::vector<parallel::StepTimes> times;

  /// Adds a pipeline, of ranks with these speeds by stage.
  void add(const parallel::RunPlan& plan, std::vector<parallel::StepTimes> of_stages,
           const std::vector<double>& speeds) {
    first_of_.try_emplace(speeds, ranks.size());
    std::vector<int> pipeline(plan.stages.size());
    std::iota(pipeline.begin(), pipeline.end(), static_cast<int>(ranks.size()));
    for (size_t s = 0; s < plan.stages.size(); ++s) {
      ranks.push_back({plan.stages[s].step, plan.stages[s].layout, pipeline});
      of_stages[s].speed = speeds[s];
      for (auto& takes : of_stages[s].update) takes /= speeds[s];
      times.push_back(std::move(of_stages[s]));
    }
  }

  /// Returns the index of the simulated rank that stands for one at a stage of a pipeline with
  /// these speeds.
  size_t place_of(const std::vector<double>& speeds, int stage) const {
    return first_of_.at(speeds) + static_cast<size_t>(stage);
  }

 private:
  std::map<std::vector<double>, size_t> first_of_;
};

}  // namespace

const char* name_of(Fit fit) {
  return fit == Fit::Yes ? "yes" : fit == Fit::AtRisk ? "at risk" : "no";
}

std::vector<BlockCost> with_expert_rows(std::vector<BlockCost> blocks,
                                        const parallel::ModelDecl& model,
                                        const parallel::Mesh& mesh) {
  if (mesh.degree(Axis::Expert) == 1) return blocks;
  for (size_t b = 0; b < blocks.size(); ++b) {
    auto& cost = blocks[b];
    // States are what a block returns. As many rows come from other ranks as leave.
    cost.expert_bytes = model.blocks[b].experts_per_token * cost.sent_bytes;
    cost.kept_bytes += cost.expert_bytes;
    cost.forward_bytes += 2 * cost.expert_bytes;
    cost.backward_bytes += 2 * cost.expert_bytes;
    cost.half_bytes += 2 * cost.expert_bytes;
  }
  return blocks;
}

parallel::Costs seconds_of(const std::vector<BlockCost>& blocks, const Cluster& cluster,
                           const parallel::Mesh& mesh, const Link& to_next, bool low_precision,
                           KnownGroups* known) {
  const GroupTimes tensor(cluster, mesh, Axis::Tensor, known),
      context(cluster, mesh, Axis::Context, known), experts(cluster, mesh, Axis::Expert, known);
  std::vector<double> speeds;
  for (int rank = 0; tensor.plays() && rank < mesh.num_ranks(); ++rank) {
    speeds.push_back(cluster.speed_of(rank, low_precision));
  }
  auto out = parallel::costs_of(parallel::counts_of(blocks));
  const auto each = [](int64_t number, int64_t bytes, const auto& time) {
    if (number == 0) return 0.0;
    const auto n = static_cast<double>(number);
    return n * time(static_cast<double>(bytes) / n);
  };
  const auto sums = [&](int64_t number, int64_t bytes, double computing) {
    const auto time = [&](double of_one) {
      return tensor.waits(of_one, computing / static_cast<double>(number), speeds);
    };
    return tensor.size() == 1 ? 0.0 : each(number, bytes, time);
  };
  const auto messages = [&](int64_t number, int64_t bytes) {
    return each(number, bytes, [&](double of_one) { return context.message(of_one); });
  };
  // Rows there and back, in forward and in backward; their numbers and weights are few bytes.
  const auto all_to_alls = [&](int64_t bytes) {
    if (bytes == 0 || experts.size() == 1) return 0.0;
    return 2 * experts.all_to_all(static_cast<double>(bytes)) + experts.all_to_all(0);
  };
  for (size_t b = 0; b < blocks.size(); ++b) {
    const auto& block = blocks[b];
    const double of_experts = all_to_alls(block.expert_bytes);
    out.forward_sums.push_back(
        sums(block.forward_sums, block.forward_sum_bytes, block.forward_seconds) +
        messages(block.forward_messages, block.forward_message_bytes) + of_experts);
    out.backward_sums.push_back(
        sums(block.backward_sums, block.backward_sum_bytes, block.backward_seconds) +
        messages(block.backward_messages, block.backward_message_bytes) + of_experts);
    out.forward[b] += out.forward_sums[b];
    out.backward[b] += out.backward_sums[b];
    out.send[b] = to_next.time_of(out.sent_bytes[b]);
    out.send_grad[b] = to_next.time_of(out.grad_bytes[b]);
  }
  return out;
}

Fit fit_of(int64_t bytes, int64_t limit, double spread) {
  if (static_cast<double>(bytes) * (1 + spread) <= static_cast<double>(limit)) return Fit::Yes;
  return bytes <= limit ? Fit::AtRisk : Fit::No;
}

Fit fit_of(const ModelCosts& numbers, const Cluster& cluster, int64_t bytes) {
  int64_t most = cluster.room();
  for (const auto& device : cluster.each) {
    most = std::max(most, device.memory_bytes - cluster.reserved_bytes);
  }
  return fit_of(bytes, most, numbers.memory_spread);
}

namespace {

/// Run with its layout over ranks.
struct Spread {
  parallel::Mesh mesh;
  Parallelism split;
  StepFacts facts;

  int64_t num_stages() const { return mesh.degree(Axis::Pipeline); }
  std::vector<BlockCost> blocks(const ModelCosts& numbers) const {
    return numbers.blocks_of(mesh, split);
  }
  parallel::RunPlan plan(const ModelCosts& numbers, const std::vector<BlockCost>& blocks,
                         int rank) const {
    return parallel::plan_again(numbers.model, mesh.of(rank), split, facts, blocks,
                                numbers.known ? &numbers.known->choices : nullptr);
  }
};

/// Compares the memory that stages need with what devices and hosts have.
void hold_memory(Prediction& out, const ModelCosts& numbers, const Cluster& cluster,
                 const parallel::RunPlan& plan, const Spread& run) {
  std::vector<const Layout*> layouts;
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const auto& memory = plan.stages[s].memory;
    const auto room = room_of_stage(cluster, run.mesh, static_cast<int>(s));
    const auto fit = fit_of(memory.sum(), room, numbers.memory_spread);
    const auto short_bytes = std::max<int64_t>(0, memory.sum() - room);
    layouts.push_back(&plan.stages[s].layout);
    out.fit = std::max(out.fit, fit);
    const bool is_worse =
        short_bytes > out.short_bytes || (out.short_bytes == 0 && memory.sum() > out.memory.sum());
    if (s > 0 && !is_worse) continue;
    out.memory = memory;
    out.stage = static_cast<int>(s);
    out.short_bytes = short_bytes;
  }
  if (!run.split.offload.any() || out.fit == Fit::No) return;
  const auto excess = beyond_hosts(layouts, cluster, run.split, run.facts, run.mesh.num_ranks());
  if (excess.bytes == 0) return;
  out.fit = Fit::No;
  out.short_bytes = excess.bytes;
  out.short_of = excess.place;
}

/// Returns the links from each stage to others, as far as messages use them; none for a single
/// stage.
std::vector<std::vector<parallel::Link>> links_between_stages(const Cluster& cluster,
                                                              const parallel::Mesh& mesh) {
  const int num_stages = mesh.degree(Axis::Pipeline);
  std::vector<std::vector<parallel::Link>> out(static_cast<size_t>(num_stages));
  for (int s = 0; num_stages > 1 && s < num_stages; ++s) {
    auto& links = out[static_cast<size_t>(s)];
    links.resize(out.size());
    for (const int to : {s - 1, s + 1, num_stages - 1 - s}) {  // virtual stages go around
      if (to < 0 || to >= num_stages) continue;
      links[static_cast<size_t>(to)] = link_of_stages(cluster, mesh, s, to);
    }
  }
  return out;
}

constexpr double kAlike = 1e-9;  // of what two ranks compute

/// Returns a function for the time at which a step's reductions end, where ranks of several hosts
/// begin them at different times; it simulates each rank's messages. Empty where all begin at once,
/// or wait for other things in between.
parallel::EndOfSums end_of_sums(const Cluster& cluster, const Spread& run, const StepGroups& groups,
                                const Played& played) {
  const bool reduces = run.split.zero == 0;
  const auto& summed = reduces ? groups.rows : groups.state;
  const auto speeds = speeds_of(cluster, run.mesh, run.facts.low_precision);
  // Ranks along the axis of experts sum other buckets with other ranks.
  const bool one_by_one = run.mesh.degree(Axis::Expert | Axis::Context | Axis::Tensor) == 1;
  const bool differ =
      std::adjacent_find(speeds.begin(), speeds.end(), std::not_equal_to<>()) != speeds.end();
  if (!one_by_one || !differ || run.split.offload.any() || !summed.plays_hosts()) return {};
  return [&, summed, speeds, reduces](const std::vector<std::vector<parallel::BegunSum>>& begun) {
    const auto data = static_cast<int>(speeds.size());
    std::vector<std::vector<Begun>> by_rank;
    for (int rank = 0; rank < run.mesh.num_ranks(); ++rank) {
      const auto r = played.place_of(speeds[static_cast<size_t>(rank % data)], rank / data);
      auto& sums = by_rank.emplace_back();
      for (const auto& [bucket, at] : begun[r]) {
        const auto& buckets = played.ranks[r].layout.buckets();
        const auto elements = buckets[static_cast<size_t>(bucket)].all.length();
        sums.push_back({4 * static_cast<double>(elements), at});
      }
    }
    return summed.ended(reduces ? Collective::AllReduce : Collective::ReduceScatter, by_rank);
  };
}

Prediction play(const ModelCosts& numbers, const Cluster& cluster, const Spread& run,
                bool in_full) {
  const auto& mesh = run.mesh;
  const auto blocks = run.blocks(numbers);
  const auto plan = run.plan(numbers, blocks, mesh.rank());  // tells whether the model goes into it
  auto* known = numbers.known_groups();
  const auto costs = seconds_of(blocks, cluster, mesh, {}, run.facts.low_precision, known);
  const StepGroups groups(cluster, mesh, known);
  const auto links = links_between_stages(cluster, mesh);
  Played played;
  const auto add_pipelines = [&](const parallel::RunPlan& of) {
    std::vector<parallel::StepTimes> times;
    for (size_t s = 0; s < of.stages.size(); ++s) {
      times.push_back(
          times_of(of.stages[s].layout, numbers, cluster, run.split, run.facts, groups));
      times.back().to_stage = links[s];
    }
    const auto speeds = speeds_of(cluster, run.mesh, run.facts.low_precision);
    const std::set<std::vector<double>> different(speeds.begin(), speeds.end());
    if (in_full) {
      for (const auto& each : speeds) played.add(of, times, each);
    } else {
      for (const auto& each : different) played.add(of, times, each);
    }
  };
  add_pipelines(plan);
  std::deque<parallel::RunPlan> others;  // of the other tensor ranks
  for (const int rank : mesh.ranks_along(Axis::Tensor)) {
    if (!in_full || rank == mesh.rank()) continue;
    others.push_back(run.plan(numbers, blocks, rank));
    add_pipelines(others.back());
  }
  constexpr int kSteps = 2;  // the second one finds what the first left under way
  const auto timeline =
      parallel::simulate(played.ranks, costs, played.times, kSteps, parallel::Detail::Totals,
                         end_of_sums(cluster, run, groups, played));

  Prediction out;
  out.seconds = timeline.length;
  for (size_t r = 0; r < played.ranks.size(); ++r) {
    const double computing = timeline.computing[r];
    if (computing <= out.computing * (1 + kAlike)) continue;
    out.computing = computing;
    out.held_up = timeline.held_up[r];
    out.updates = timeline.updates[r];
  }
  out.bubble = std::max(0.0, out.seconds - out.computing - out.held_up - out.updates);
  hold_memory(out, numbers, cluster, plan, run);
  return out;
}

/// Number of simulated periods: a step repeats itself in its middle after as many micro-batches as
/// there are stages.
constexpr int64_t kPlayed = 4;

/// Whether a run has so few micro-batches that all are simulated.
bool has_few(const Spread& run) {
  constexpr int64_t kFew = 32;
  return run.split.micro_batches <= std::max(kFew, (kPlayed + 1) * run.num_stages());
}

/// Run with its first and last micro-batches alone, which needs as much memory.
Spread shortened(Spread run) {
  const int64_t stages = run.num_stages();
  run.split.micro_batches = (kPlayed - 1) * stages + run.split.micro_batches % stages;
  return run;
}

/// Facts of a training with this split: without stages it has no counts, and so may recompute other
/// blocks than with them.
StepFacts facts_of(const Parallelism& split, StepFacts facts) {
  if (split.ranks.pipeline == 1) facts.counts.clear();
  return facts;
}

}  // namespace

Prediction predict(const ModelCosts& numbers, const Cluster& cluster, const parallel::Mesh& mesh,
                   const Parallelism& split, const StepFacts& facts, bool in_full) {
  const Spread run{mesh, split, facts};
  const int64_t period = run.num_stages();
  if (in_full || has_few(run)) return play(numbers, cluster, run, in_full);
  auto shorter = shortened(run);
  const auto before = play(numbers, cluster, shorter, false);
  // Transfers are hidden by all micro-batches together.
  if (run.split.offload.any() && before.fit != Fit::No) return play(numbers, cluster, run, false);
  shorter.split.micro_batches += period;
  auto out = play(numbers, cluster, shorter, false);
  // A step that grows by less than its computing hides more than the shorter one.
  constexpr double kRounding = 1e-6;
  const double computes = out.computing - before.computing;
  const bool hides_more = out.seconds - before.seconds < computes * (1 - kRounding);
  if (hides_more && !run.split.offload.any()) return play(numbers, cluster, run, false);
  const auto more = static_cast<double>(split.micro_batches - shorter.split.micro_batches) /
                    static_cast<double>(period);
  for (const auto part :
       {&Prediction::seconds, &Prediction::computing, &Prediction::held_up, &Prediction::bubble}) {
    out.*part += more * (out.*part - before.*part);
  }
  return out;
}

Prediction predict(const ModelCosts& numbers, const Cluster& cluster, const StepFacts& facts,
                   const Parallelism& split, bool in_full) {
  return predict(numbers, cluster, split.mesh(), split, facts_of(split, facts), in_full);
}

Fit fit_of(const ModelCosts& numbers, const Cluster& cluster, const StepFacts& facts,
           const Parallelism& split) {
  const Spread run{split.mesh(), split, facts_of(split, facts)};
  const auto few = has_few(run) ? run : shortened(run);
  Prediction out;
  hold_memory(out, numbers, cluster, few.plan(numbers, few.blocks(numbers), few.mesh.rank()), few);
  return out.fit;
}

}  // namespace convoy::planner
