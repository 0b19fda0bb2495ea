#include "convoy/parallel/recompute/fit.h"

#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/parallel/pipeline/builders.h"
#include "convoy/parallel/recompute/recompute.h"

namespace convoy::parallel {

namespace {

/// Function that plans one schedule with some blocks recomputed.
using Make = std::function<PipelinePlan(PipelineSchedule, const std::set<int64_t>& recomputed)>;

class Fit {
 public:
  Fit(const Costs& costs, const PlanOptions& options, const std::set<int64_t>& repeatable)
      : costs_(costs), options_(options), repeatable_(repeatable) {}

  FittedPlan run(const Make& make) {
    try_out(make, options_.parallelism.pipeline.schedule, {});
    if (options_.parallelism.pipeline.schedule == &kAutomatic) {
      try_out(make, options_.parallelism.pipeline.schedule, repeatable_);
      for (const auto* entry : pipeline_schedules()) {
        if (entry != options_.parallelism.pipeline.schedule) try_out(make, entry, {});
      }
    }
    if (!best_) std::rethrow_exception(error_);
    auto& plan = best_->plan;
    plan.floor = floor_of(plan.pipe);
    best_->schedule = schedule_named(plan.pipe, plan.orders);
    return std::move(*best_);
  }

 private:
  /// Tries a schedule that is made for `recomputed` blocks; then the fewest blocks that it needs
  /// are recomputed.
  void try_out(const Make& make, PipelineSchedule schedule, const std::set<int64_t>& recomputed) {
    double least = std::numeric_limits<double>::infinity();
    try {
      FittedPlan one{make(schedule, recomputed), {}, {}};
      auto& plan = one.plan;
      // The search would find other orders for more memory.
      if (schedule != &kAutomatic) {
        least = least_memory(plan.cut, plan.orders, costs_, repeatable_);
      }
      one.recomputed =
          blocks_to_recompute(plan.cut, plan.orders, costs_, repeatable_, options_.memory);
      plan.pipe = pipe_of(plan.cut, options_.parallelism.micro_batches, costs_, one.recomputed);
      plan.pipe.memory = options_.memory;
      plan.played = play(plan.pipe, plan.orders);
      const bool better = !best_ || plan.played.length < best_->plan.played.length * (1 - 1e-9);
      if (better) best_ = std::move(one);
    } catch (const UsageError&) {
      if (error_ && least >= least_) return;
      error_ = std::current_exception();
      least_ = least;
    }
  }

  const Costs& costs_;
  const PlanOptions& options_;
  const std::set<int64_t>& repeatable_;
  std::optional<FittedPlan> best_;
  std::exception_ptr error_;  // of the schedule that needs least
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

FittedPlan plan_to_fit(const Costs& by_block, const PlanOptions& options,
                       const std::set<int64_t>& repeatable) {
  return Fit(by_block, options, repeatable).run([&](PipelineSchedule schedule, const auto& again) {
    auto one = options;
    one.parallelism.pipeline.schedule = schedule;
    one.recomputed = again;
    if (!schedule->interleaved) one.parallelism.pipeline.placement.reset();
    return plan_pipeline(by_block, one);
  });
}

FittedPlan plan_to_fit(const Cut& cut, const Costs& by_block, const PlanOptions& options,
                       const std::set<int64_t>& repeatable) {
  return Fit(by_block, options, repeatable).run([&](PipelineSchedule schedule, const auto& again) {
    PipelinePlan out;
    out.cut = cut;
    out.pipe = pipe_of(cut, options.parallelism.micro_batches, by_block, again);
    out.pipe.memory = options.memory;
    const bool once = out.pipe.num_virtual_stages() == out.pipe.num_ranks();
    if (!once && !schedule->interleaved) {
      fail<UsageError>("parallel", "pipeline_schedule = {} takes one virtual stage a rank",
                       schedule->name);
    }
    out.orders = schedule->orders(out.pipe);
    return out;
  });
}

std::string schedule_named(const Pipe& pipe, const Orders& orders) {
  const bool once = pipe.num_virtual_stages() == pipe.num_ranks();
  for (const auto* entry : pipeline_schedules()) {
    const bool goes = once || entry->interleaved || entry == &kNaive;
    if (entry == &kAutomatic || !goes) continue;
    if (entry->orders(pipe) == orders) return entry->name;
  }
  return "";
}

}  // namespace convoy::parallel
