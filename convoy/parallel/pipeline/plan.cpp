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
struct Arrangement {
  int virtual_stages = 1;
  Placement placement = Placement::Loop;
};

/// Function that arranges virtual stages, with a cut of the blocks or without one.
using Arrange = std::function<std::pair<Cut, Pipe>(const Arrangement&)>;

std::vector<Arrangement> arrangements(const Parallelism& parallelism) {
  require(refuse_placement(parallelism));
  const auto& asked = parallelism.pipeline;
  const int most = asked.schedule->interleaved ? static_cast<int>(asked.virtual_stages) : 1;
  std::vector<Arrangement> out;
  for (int v = asked.schedule == &kAutomatic ? 1 : most; v <= most; ++v) {
    if (asked.placement == Placement::V && v != 2) continue;
    const auto placement = v == 2 ? asked.placement : Placement::Loop;
    // Tries the V first, which wins among equally fast placements: a table that both ends share
    // needs no sum over ranks there.
    const bool either = !placement && asked.schedule->either_placement;
    if (placement == Placement::V || either) out.push_back({v, Placement::V});
    if (placement != Placement::V) out.push_back({v, Placement::Loop});
  }
  return out;
}

PipelinePlan plan(const Arrange& arrange, int64_t num_blocks, const PlanOptions& options) {
  const int64_t num_stages = options.parallelism.ranks.pipeline;
  const auto schedule = options.parallelism.pipeline.schedule;
  const auto all_arrangements = arrangements(options.parallelism);
  std::vector<PipelinePlan> all;
  double smallest = std::numeric_limits<double>::infinity();
  for (const auto& each : all_arrangements) {
    if (num_blocks < num_stages * each.virtual_stages) continue;
    auto& one = all.emplace_back();
    std::tie(one.cut, one.pipe) = arrange(each);
    smallest = std::min(smallest, smallest_memory(one.pipe));
  }
  double memory = options.memory;
  // A v that was asked for may need more for one micro-batch than 1f1b for all.
  if (memory == 0) memory = std::max(memory_bound(arrange({}).second), smallest);
  constexpr double kRounding = 1e-9;
  std::optional<PipelinePlan> best;
  for (auto& one : all) {
    if (schedule == &kAutomatic) {
      if (smallest_memory(one.pipe) > memory) continue;
      one.pipe.memory = memory;
    }
    one.floor = floor_of(one.pipe);
    const double enough = best ? best->played.length * (1 - kRounding) : 0;
    if (best && one.floor >= enough) continue;  // no orders of it can be better
    one.orders = options.known == nullptr ? schedule->orders(one.pipe)
                                          : options.known->orders(schedule, one.pipe);
    one.played = play(one.pipe, one.orders);
    if (!best || one.played.length < enough) best = std::move(one);
  }
  if (!best && !all.empty()) fail_for_memory(memory, smallest);
  if (!best) {
    fail<UsageError>("parallel", "a pipeline of {} with {} each needs as many blocks; got {}",
                     plural(num_stages, "stage"),
                     plural(all_arrangements.front().virtual_stages, "virtual stage"), num_blocks);
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
  const auto& parallelism = options.parallelism;
  const auto num_stages = static_cast<int>(parallelism.ranks.pipeline);
  if (num_blocks < num_stages) {
    fail<UsageError>("parallel", "a pipeline of {} needs as many blocks; got {}",
                     plural(num_stages, "stage"), num_blocks);
  }
  const Arrange arrange = [&](const Arrangement& arrangement) {
    auto cut =
        options.known == nullptr
            ? cut_blocks(costs, num_stages, arrangement.virtual_stages, arrangement.placement)
            : options.known->cut(costs, num_stages, arrangement.virtual_stages,
                                 arrangement.placement);
    if (parallelism.reduces_each_shard()) cut = joined(cut);
    auto pipe = pipe_of(cut, parallelism.micro_batches, by_block, options.recomputed);
    return std::pair{std::move(cut), std::move(pipe)};
  };
  return plan(arrange, num_blocks, options);
}

PipelinePlan plan_stages(const Costs& by_stage, const PlanOptions& options) {
  const auto num_stages = static_cast<int>(options.parallelism.ranks.pipeline);
  const int64_t micro_batches = options.parallelism.micro_batches;
  const Arrange arrange = [&](const Arrangement& arrangement) {
    auto pipe = arrangement.placement == Placement::V
                    ? v_pipe(num_stages, micro_batches)
                    : loop_pipe(num_stages, arrangement.virtual_stages, micro_batches);
    const auto share = [&](const std::vector<double>& costs, double part) {
      std::vector<double> out;
      for (const int rank : pipe.rank_of) {
        if (!costs.empty()) out.push_back(costs.at(static_cast<size_t>(rank)) * part);
      }
      return out;
    };
    const double part = 1.0 / arrangement.virtual_stages;
    pipe.costs = {share(by_stage.forward, part), share(by_stage.backward, part),
                  share(by_stage.weight, part),  share(by_stage.send, 1),
                  share(by_stage.send_grad, 1),  share(by_stage.kept, part),
                  share(by_stage.put_off, part)};
    return std::pair{Cut{}, std::move(pipe)};
  };
  return plan(arrange, std::numeric_limits<int64_t>::max(), options);
}

}  // namespace convoy::parallel
