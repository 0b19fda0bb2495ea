#include "convoy/parallel/pipeline/plan.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/parallel/pipeline/builders.h"
#include "convoy/parallel/refuse.h"

namespace convoy::parallel {

namespace {

/// Placement of virtual stages, and their number on a rank.
struct Way {
  int virtual_stages = 1;
  Placement placement = Placement::Loop;
};

/// Function that places virtual stages, with a cut of the blocks or without one.
using Lay = std::function<std::pair<Cut, Pipe>(const Way&)>;

std::vector<Way> ways(const PlanOptions& options) {
  const bool searches = options.parallelism.pipeline.schedule == &kAutomatic;
  const bool either = options.parallelism.pipeline.schedule->either_placement;
  const int most = options.parallelism.pipeline.schedule->interleaved
                       ? options.parallelism.pipeline.virtual_stages
                       : 1;
  require(refuse_placement(options.parallelism));
  std::vector<Way> out;
  for (int v = searches ? 1 : most; v <= most; ++v) {
    if (options.parallelism.pipeline.placement == Placement::V && v != 2) continue;
    const auto asked = v == 2 ? options.parallelism.pipeline.placement : Placement::Loop;
    // Tries the V first, which wins among equally fast placements: a table that both ends share
    // needs no sum over ranks there.
    if (asked == Placement::V || (!asked && either)) out.push_back({v, Placement::V});
    if (asked != Placement::V) out.push_back({v, Placement::Loop});
  }
  return out;
}

PipelinePlan plan(const Lay& lay, int64_t num_blocks, const PlanOptions& options) {
  std::vector<PipelinePlan> all;
  double smallest = std::numeric_limits<double>::infinity();
  for (const auto& way : ways(options)) {
    if (num_blocks < static_cast<int64_t>(options.parallelism.ranks.pipeline) * way.virtual_stages)
      continue;
    auto& one = all.emplace_back();
    std::tie(one.cut, one.pipe) = lay(way);
    smallest = std::min(smallest, smallest_memory(one.pipe));
  }
  double memory = options.memory;
  // A v that was asked for may need more for one micro-batch than 1f1b for all.
  if (memory == 0) memory = std::max(memory_bound(lay({}).second), smallest);
  constexpr double kRounding = 1e-9;
  std::optional<PipelinePlan> best;
  for (auto& one : all) {
    if (options.parallelism.pipeline.schedule == &kAutomatic) {
      if (smallest_memory(one.pipe) > memory) continue;
      one.pipe.memory = memory;
    }
    one.floor = floor_of(one.pipe);
    const double enough = best ? best->played.length * (1 - kRounding) : 0;
    if (best && one.floor >= enough) continue;  // no orders of it can be better
    one.orders = options.known == nullptr
                     ? options.parallelism.pipeline.schedule->orders(one.pipe)
                     : options.known->orders(options.parallelism.pipeline.schedule, one.pipe);
    one.played = play(one.pipe, one.orders);
    if (!best || one.played.length < enough) best = std::move(one);
  }
  if (!best && !all.empty()) fail_for_memory(memory, smallest);
  if (!best) {
    fail<UsageError>("parallel", "a pipeline of {} with {} each needs as many blocks; got {}",
                     plural(options.parallelism.ranks.pipeline, "stage"),
                     plural(ways(options).front().virtual_stages, "virtual stage"), num_blocks);
  }
  return std::move(*best);
}

}  // namespace

PipelinePlan plan_pipeline(const Costs& by_block, const PlanOptions& options) {
  std::vector<double> costs;
  for (size_t b = 0; b < by_block.forward.size(); ++b) {
    const bool again = options.recomputed.contains(static_cast<int64_t>(b));
    costs.push_back(by_block.backward[b] + (again ? 2 : 1) * by_block.forward[b]);
  }
  const auto num_blocks = static_cast<int64_t>(costs.size());
  if (num_blocks < options.parallelism.ranks.pipeline) {
    fail<UsageError>("parallel", "a pipeline of {} needs as many blocks; got {}",
                     plural(options.parallelism.ranks.pipeline, "stage"), num_blocks);
  }
  const Lay lay = [&](const Way& way) {
    auto cut = options.known == nullptr
                   ? cut_blocks(costs, options.parallelism.ranks.pipeline, way.virtual_stages,
                                way.placement)
                   : options.known->cut(costs, options.parallelism.ranks.pipeline,
                                        way.virtual_stages, way.placement);
    if (options.parallelism.reduces_each_shard()) cut = joined(cut);
    auto pipe = pipe_of(cut, options.parallelism.micro_batches, by_block, options.recomputed);
    return std::pair{std::move(cut), std::move(pipe)};
  };
  return plan(lay, num_blocks, options);
}

PipelinePlan plan_stages(const Costs& by_stage, const PlanOptions& options) {
  const Lay lay = [&](const Way& way) {
    auto pipe = way.placement == Placement::V
                    ? v_pipe(options.parallelism.ranks.pipeline, options.parallelism.micro_batches)
                    : loop_pipe(options.parallelism.ranks.pipeline, way.virtual_stages,
                                options.parallelism.micro_batches);
    const auto share = [&](const std::vector<double>& of, double part) {
      std::vector<double> out;
      for (const int rank : pipe.rank_of) {
        if (!of.empty()) out.push_back(of.at(static_cast<size_t>(rank)) * part);
      }
      return out;
    };
    const double part = 1.0 / way.virtual_stages;
    pipe.costs = {share(by_stage.forward, part), share(by_stage.backward, part),
                  share(by_stage.weight, part),  share(by_stage.send, 1),
                  share(by_stage.send_grad, 1),  share(by_stage.kept, part),
                  share(by_stage.put_off, part)};
    return std::pair{Cut{}, std::move(pipe)};
  };
  return plan(lay, std::numeric_limits<int64_t>::max(), options);
}

}  // namespace convoy::parallel
